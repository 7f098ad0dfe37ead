import { formatSocketAddress, type IpAddress } from "./address.ts";
import { isInAnyRange } from "./ip-range.ts";
import type { NodeView } from "./node-view.ts";
import type { NodePort, ServicePort, VirtualAddress } from "./service-port.ts";
import type { UnservedPort } from "./unserved-port.ts";
import { whyNoClusterIp } from "./unusable-address.ts";

/** A ServicePort and when its Service came into being. */
export interface Claimant {
	readonly servicePort: ServicePort;
	/** Milliseconds since the epoch; undefined: not known, which counts as younger than all others. */
	readonly createdAtMs: number | undefined;
}

/** The cluster's API as a Service; the API server itself keeps it and its endpoints. */
const API_SERVICE = "default/kubernetes";

/** Who is served where: the name of the ServicePort by "10.96.0.1:80/tcp" or "ipv4 node port 30080/tcp". */
export type Owners = ReadonlyMap<string, string>;

export interface Settlement {
	/** The ServicePorts with the addresses that they get; those without any are left out. */
	readonly served: readonly ServicePort[];
	readonly unserved: readonly UnservedPort[];
	readonly owners: Owners;
}

/**
 * Gives each address and port to one ServicePort, and refuses what nobody may have.
 *
 * Where two claim the same, the older Service has it; of equally old ones that with the ClusterIP,
 * then the one that had it before, then the first by name. So the outcome is the same after a restart
 * and whatever the order of events, wherever the cluster tells ages.
 *
 * @param before who had what, so that neither a Service without a known age nor a process that takes
 * a port later ousts one that is served.
 */
export function settleAddresses(
	claimants: readonly Claimant[],
	view: NodeView,
	before: Owners,
): Settlement {
	const notes = new Notes();
	const taken = { clusterIps: clusterIpsOf(claimants), apiServers: apiServersOf(claimants) };
	const judge = new Judge(view, taken, before, notes);
	// What nobody may have is no claim: it must not keep another Service from the address.
	const admissible = claimants.map((claimant) => judge.admissible(claimant));
	const claims = new Claims(before);
	for (const claimant of admissible) claims.add(claimant);
	const served = admissible
		.map(({ servicePort }) => withoutLost(servicePort, claims.owners, notes))
		.filter(
			({ virtualAddresses, nodePort }) => virtualAddresses.length > 0 || nodePort !== undefined,
		);
	return { served, unserved: notes.all(), owners: claims.owners };
}

interface ClusterIpOwner {
	/** "shop/cart". */
	readonly service: string;
	readonly createdAtMs: number;
}

/** The oldest Service of each ClusterIP. */
function clusterIpsOf(claimants: readonly Claimant[]): ReadonlyMap<IpAddress, ClusterIpOwner> {
	const owners = new Map<IpAddress, ClusterIpOwner>();
	for (const claimant of claimants) {
		const createdAtMs = ageOf(claimant);
		for (const { kind, address } of claimant.servicePort.virtualAddresses) {
			if (kind !== "ClusterIP") continue;
			const known = owners.get(address);
			if (known !== undefined && known.createdAtMs <= createdAtMs) continue;
			owners.set(address, { service: serviceOf(claimant.servicePort), createdAtMs });
		}
	}
	return owners;
}

/** Where the cluster's API is served: the endpoints of its own Service. */
function apiServersOf(claimants: readonly Claimant[]): ReadonlySet<IpAddress> {
	const own = claimants.filter(({ servicePort }) => serviceOf(servicePort) === API_SERVICE);
	return new Set(
		own.flatMap(({ servicePort }) => servicePort.endpoints.map(({ address }) => address)),
	);
}

/** Addresses that are somebody's by nature. */
interface TakenAddresses {
	readonly clusterIps: ReadonlyMap<IpAddress, ClusterIpOwner>;
	readonly apiServers: ReadonlySet<IpAddress>;
}

/** Leaves out what no Service may have, whoever else claims it. */
class Judge {
	readonly #view: NodeView;
	readonly #taken: TakenAddresses;
	readonly #before: Owners;
	readonly #notes: Notes;

	constructor(view: NodeView, taken: TakenAddresses, before: Owners, notes: Notes) {
		this.#view = view;
		this.#taken = taken;
		this.#before = before;
		this.#notes = notes;
	}

	admissible(claimant: Claimant): Claimant {
		const { servicePort } = claimant;
		const kept = keep(
			servicePort,
			(virtual) => this.#mayHave(claimant, virtual),
			(nodePort) => this.#mayHavePort(servicePort, nodePort),
		);
		return kept === servicePort ? claimant : { ...claimant, servicePort: kept };
	}

	#mayHave(claimant: Claimant, virtual: VirtualAddress): boolean {
		const { servicePort } = claimant;
		const { kind, address } = virtual;
		const reason = this.#whyRefused(claimant, virtual);
		if (reason !== undefined) {
			this.#notes.add(servicePort, "address-refused", `${kind} ${address} ${reason}`);
			return false;
		}
		if (!this.#view.addresses.has(address)) return true;
		const { protocol, family, port } = servicePort;
		const slot = addressSlot(servicePort, address);
		return this.#isFree(servicePort, slot, { protocol, family, address, port });
	}

	#mayHavePort(servicePort: ServicePort, nodePort: NodePort): boolean {
		const { protocol, family } = servicePort;
		const port = { protocol, family, address: undefined, port: nodePort.port };
		return this.#isFree(servicePort, nodePortSlot(servicePort, nodePort), port);
	}

	/** A process that came after us sees its port go to the Service, as with kube-proxy. */
	#isFree(
		servicePort: ServicePort,
		slot: string,
		port: Parameters<NodeView["isPortTaken"]>[0],
	): boolean {
		if (this.#before.get(slot) === servicePort.name || !this.#view.isPortTaken(port)) return true;
		this.#notes.add(servicePort, "port-taken", `${slot} is in use by a process of this node`);
		return false;
	}

	#whyRefused(claimant: Claimant, { kind, address }: VirtualAddress): string | undefined {
		const special = whyNoClusterIp(address);
		if (special !== undefined) return `is ${special}`;
		if (this.#view.broadcastAddresses.has(address)) return "is a broadcast address of this node";
		if (kind === "ClusterIP") return undefined;
		const owner = this.#taken.clusterIps.get(address);
		if (owner !== undefined && owner.service !== serviceOf(claimant.servicePort)) {
			return `is the ClusterIP of ${owner.service}`;
		}
		return kind === "ExternalIP" ? this.#whyNoExternalIp(address) : undefined;
	}

	/** CVE-2020-8554: whoever may write a Service may write any address here. */
	#whyNoExternalIp(address: IpAddress): string | undefined {
		const { addresses, allowedExternalIps } = this.#view;
		if (addresses.has(address)) return "is an address of this node";
		if (this.#taken.apiServers.has(address)) return "is an API server's address";
		return allowedExternalIps === undefined || isInAnyRange(address, allowedExternalIps)
			? undefined
			: "is not in --allow-external-ips";
	}
}

/** A claim to one address and port, or to one port of the node. */
interface Claim {
	readonly owner: string;
	readonly createdAtMs: number;
	readonly isClusterIp: boolean;
}

class Claims {
	readonly #before: Owners;
	readonly #best = new Map<string, Claim>();
	readonly #owners = new Map<string, string>();

	constructor(before: Owners) {
		this.#before = before;
	}

	get owners(): Owners {
		return this.#owners;
	}

	add(claimant: Claimant): void {
		const { servicePort } = claimant;
		const createdAtMs = ageOf(claimant);
		const owner = servicePort.name;
		for (const { kind, address } of servicePort.virtualAddresses) {
			const isClusterIp = kind === "ClusterIP";
			this.#add(addressSlot(servicePort, address), { owner, createdAtMs, isClusterIp });
		}
		if (servicePort.nodePort === undefined) return;
		const slot = nodePortSlot(servicePort, servicePort.nodePort);
		this.#add(slot, { owner, createdAtMs, isClusterIp: false });
	}

	#add(slot: string, claim: Claim): void {
		const best = this.#best.get(slot);
		if (best !== undefined && !this.#isBetter(slot, claim, best)) return;
		this.#best.set(slot, claim);
		this.#owners.set(slot, claim.owner);
	}

	#isBetter(slot: string, a: Claim, b: Claim): boolean {
		if (a.createdAtMs !== b.createdAtMs) return a.createdAtMs < b.createdAtMs;
		if (a.isClusterIp !== b.isClusterIp) return a.isClusterIp;
		const had = this.#before.get(slot);
		if ((a.owner === had) !== (b.owner === had)) return a.owner === had;
		return a.owner < b.owner;
	}
}

function withoutLost(servicePort: ServicePort, owners: Owners, notes: Notes): ServicePort {
	const hasWon = (slot: string): boolean => {
		const owner = owners.get(slot);
		if (owner === servicePort.name) return true;
		notes.add(servicePort, "conflict", `${slot} belongs to ${owner}`);
		return false;
	};
	return keep(
		servicePort,
		({ address }) => hasWon(addressSlot(servicePort, address)),
		(nodePort) => hasWon(nodePortSlot(servicePort, nodePort)),
	);
}

/** What is not served, each once: both pools of a port say the same. */
class Notes {
	readonly #notes = new Map<string, UnservedPort>();

	add({ name }: ServicePort, reason: UnservedPort["reason"], detail: string): void {
		this.#notes.set(`${name} ${detail}`, { name, reason, detail });
	}

	all(): readonly UnservedPort[] {
		return [...this.#notes.values()];
	}
}

/** The very same object where everything is kept. */
function keep(
	servicePort: ServicePort,
	isAddressKept: (virtual: VirtualAddress) => boolean,
	isPortKept: (nodePort: NodePort) => boolean,
): ServicePort {
	const virtualAddresses = servicePort.virtualAddresses.filter(isAddressKept);
	const { nodePort } = servicePort;
	const keptPort = nodePort !== undefined && isPortKept(nodePort) ? nodePort : undefined;
	return virtualAddresses.length === servicePort.virtualAddresses.length && keptPort === nodePort
		? servicePort
		: { ...servicePort, virtualAddresses, nodePort: keptPort };
}

/** The smaller, the older; Services without a known age are the youngest. */
function ageOf({ createdAtMs }: Claimant): number {
	return createdAtMs ?? Number.POSITIVE_INFINITY;
}

function serviceOf({ namespace, serviceName }: ServicePort): string {
	return `${namespace}/${serviceName}`;
}

function addressSlot({ port, protocol }: ServicePort, address: IpAddress): string {
	return `${formatSocketAddress(address, port)}/${protocol}`;
}

function nodePortSlot({ family, protocol }: ServicePort, { port }: NodePort): string {
	return `${family} node port ${port}/${protocol}`;
}

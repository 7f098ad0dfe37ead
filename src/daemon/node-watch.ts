import type { Config } from "../config/config.ts";
import { IP_FAMILIES, type IpAddress, type IpFamily } from "../services/address.ts";
import { addressesOfNodePorts, type NodeNetwork, PLAIN_NETWORK } from "../services/node-network.ts";
import type { HostPort, NodeView } from "../services/node-view.ts";
import type { NodeInfo } from "../services/objects.ts";
import type { Binding } from "../services/service-port.ts";
import type { Clock } from "../shared/clock.ts";
import { describeError } from "../shared/errors.ts";
import type { Log } from "../shared/log.ts";
import { RecurringFailure } from "../shared/recurring.ts";
import { isTakenBy, type WaitingSocket } from "./host-ports.ts";
import { chooseNodeAddress, uplinksOf } from "./node-address.ts";
import {
	addressesOf,
	broadcastAddressesOf,
	type Interfaces,
	linksWithoutAddress,
	nodePortAddresses,
	podSources,
	primaryAddresses,
} from "./node-network.ts";
import { type NodeSystem, nodeSystem } from "./node-system.ts";

type PerFamily<T> = Readonly<Record<IpFamily, T>>;

export interface NodeWatchOptions {
	readonly config: Pick<
		Config,
		| "nodeName"
		| "bindAddress"
		| "nodePortAddresses"
		| "localhostNodePorts"
		| "localDetection"
		| "allowedExternalIps"
	>;
	readonly log: Log;
	/** This node's Node object; undefined without a cluster, and before it has told. */
	nodeInfo(): NodeInfo | undefined;
	/** The proxy listeners of this daemon: their ports are not taken by others. */
	bindings(): readonly Pick<Binding, "protocol" | "family" | "proxyPort">[];
	readonly clock: Clock;
	readonly system?: NodeSystem;
}

/** Interfaces are looked at one by one at most this often, and one that is being set up gets as long. */
export const LINK_LOOK_MS = 1_000;

/** Names of interfaces in one log line. */
const MAX_NAMED = 10;

/**
 * What this node's network is like, as last looked up: for the model a {@link NodeView}, for the rules
 * a {@link NodeNetwork}, for listeners that need one an address. Each is the same object until it means
 * something else.
 */
export class NodeWatch {
	readonly #options: NodeWatchOptions;
	readonly #system: NodeSystem;
	readonly #failure: RecurringFailure;
	#chosen: PerFamily<IpAddress | undefined> = { ipv4: undefined, ipv6: undefined };
	#network: NodeNetwork = PLAIN_NETWORK;
	#view: NodeView;
	#linkNames: readonly string[] = [];
	/** Interfaces without an address at the last look: one that is just being set up has none either. */
	#suspects: PerFamily<readonly string[]> = { ipv4: [], ipv6: [] };
	#linksSeenAtMs = Number.NEGATIVE_INFINITY;
	readonly #needsDnat: Record<IpFamily, boolean> = { ipv4: false, ipv6: false };
	#sockets: readonly WaitingSocket[] | undefined;

	constructor(options: NodeWatchOptions) {
		this.#options = options;
		this.#system = options.system ?? nodeSystem;
		this.#view = this.#newView([], []);
		this.#failure = new RecurringFailure({
			log: options.log,
			failing: "cannot look up this node's addresses, those known stay",
			recovered: "this node's addresses are looked up again",
		});
	}

	/** The address of a family that is to stay, see {@link chooseNodeAddress}; undefined while there is none. */
	addressOf(family: IpFamily): IpAddress | undefined {
		return this.#chosen[family];
	}

	network(): NodeNetwork {
		return this.#network;
	}

	/** Where load balancers may ask after Services; empty: on every address. */
	healthCheckAddresses(): readonly IpAddress[] {
		const isAll = IP_FAMILIES.every((family) => this.#network.nodePorts.ranges[family] === "all");
		return isAll
			? []
			: IP_FAMILIES.flatMap((family) => addressesOfNodePorts(this.#network, family));
	}

	view(): NodeView {
		return this.#view;
	}

	/**
	 * Looks again; what was known stays where that fails, for want of a descriptor above all.
	 *
	 * @returns whether anything is other than before.
	 */
	refresh(): boolean {
		// Whoever has asked about a port since the last look asks the kernel anew.
		this.#sockets = undefined;
		const interfaces = this.#interfaces();
		if (interfaces === undefined) return false;
		const before = { view: this.#view, network: this.#network, chosen: this.#chosen };
		this.#choose(interfaces);
		this.#lookAtLinks(interfaces);
		this.#describe(interfaces);
		return (
			before.view !== this.#view ||
			before.network !== this.#network ||
			before.chosen !== this.#chosen
		);
	}

	/** A cheap look for interfaces that came or went since the last {@link refresh}. */
	hasNewLinks(): boolean {
		// With an address of its own for every listener it does not matter.
		if (this.#options.config.bindAddress !== undefined) return false;
		return this.#system.linkNames().join("\n") !== this.#linkNames.join("\n");
	}

	/** Whether an interface is waited for that may turn out to need DNAT: look again soon. */
	hasSuspects(): boolean {
		return IP_FAMILIES.some(
			(family) => !this.#needsDnat[family] && this.#suspects[family].length > 0,
		);
	}

	/** Ports that were taken may be free now: makes the next plan ask again. */
	askPortsAgain(): void {
		this.#sockets = undefined;
		this.#view = { ...this.#view };
	}

	#choose(interfaces: Interfaces): void {
		const uplinks = uplinksOf(this.#system.routes());
		const clusterAddresses = this.#options.nodeInfo()?.addresses ?? [];
		const choose = (family: IpFamily): IpAddress | undefined =>
			chooseNodeAddress(family, {
				interfaces,
				uplinks,
				clusterAddresses,
				current: this.#chosen[family],
			});
		const next = { ipv4: choose("ipv4"), ipv6: choose("ipv6") };
		if (IP_FAMILIES.every((family) => next[family] === this.#chosen[family])) return;
		const fields = { was: this.#chosen, now: next };
		this.#options.log.info(fields, "node addresses chosen");
		this.#chosen = next;
	}

	/**
	 * REDIRECT drops what comes in on an interface without an address, so arriving TCP is led to a node
	 * address by DNAT from the day on that there is such an interface. It stays so: Pods come and go.
	 */
	#lookAtLinks(interfaces: Interfaces): void {
		if (this.#options.config.bindAddress !== undefined) return;
		this.#linkNames = this.#system.linkNames();
		if (IP_FAMILIES.every((family) => this.#needsDnat[family])) return;
		const nowMs = this.#options.clock.monotonicMs();
		if (nowMs - this.#linksSeenAtMs < LINK_LOOK_MS) return;
		this.#linksSeenAtMs = nowMs;
		const links = this.#system.links(this.#linkNames);
		const find = (family: IpFamily): readonly string[] =>
			// Without any address of the family there is none to lead to either.
			this.#chosen[family] === undefined ? [] : linksWithoutAddress(links, interfaces, family);
		const found = { ipv4: find("ipv4"), ipv6: find("ipv6") };
		for (const family of IP_FAMILIES) {
			const names = found[family].filter((name) => this.#suspects[family].includes(name));
			if (names.length === 0 || this.#needsDnat[family]) continue;
			this.#needsDnat[family] = true;
			this.#options.log.info(
				{ family, interfaces: names.slice(0, MAX_NAMED), address: this.#chosen[family] },
				"interfaces have no address: arriving TCP is led to a node address by DNAT, not by REDIRECT",
			);
		}
		this.#suspects = found;
	}

	#describe(interfaces: Interfaces): void {
		const { config } = this.#options;
		const info = this.#options.nodeInfo();
		const addresses = addressesOf(interfaces);
		const arrival = (family: IpFamily): IpAddress | undefined =>
			this.#needsDnat[family] ? this.#chosen[family] : undefined;
		const primary = primaryAddresses(info?.addresses ?? [], this.#chosen);
		const network: NodeNetwork = {
			arrivalAddress: {
				tcp: { ipv4: arrival("ipv4"), ipv6: arrival("ipv6") },
				udp: this.#chosen,
			},
			addresses: new Set(addresses),
			nodePorts: nodePortAddresses(config.nodePortAddresses, config.localhostNodePorts, primary),
			pods: podSources(config.localDetection, info?.podRanges ?? []),
		};
		if (!isSameNetwork(network, this.#network)) this.#network = network;
		const broadcasts = broadcastAddressesOf(interfaces);
		const isSameView =
			isSameSet(this.#view.addresses, addresses) &&
			isSameSet(this.#view.broadcastAddresses, broadcasts);
		if (!isSameView) this.#view = this.#newView(addresses, broadcasts);
	}

	#newView(addresses: readonly IpAddress[], broadcasts: readonly IpAddress[]): NodeView {
		const { nodeName, allowedExternalIps } = this.#options.config;
		return {
			nodeName,
			allowedExternalIps,
			addresses: new Set(addresses),
			broadcastAddresses: new Set(broadcasts),
			isPortTaken: (port) => this.#isPortTaken(port),
		};
	}

	#isPortTaken(port: HostPort): boolean {
		const own = this.#options.bindings();
		const isOwn = own.some(
			({ protocol, family, proxyPort }) =>
				protocol === port.protocol && family === port.family && proxyPort === port.port,
		);
		if (isOwn) return false;
		this.#sockets ??= this.#system.waitingSockets();
		return isTakenBy(this.#sockets, port);
	}

	#interfaces(): Interfaces | undefined {
		try {
			const found = this.#system.interfaces();
			this.#failure.succeeded();
			return found;
		} catch (error) {
			this.#failure.failed(describeError(error));
			return undefined;
		}
	}
}

function isSameNetwork(a: NodeNetwork, b: NodeNetwork): boolean {
	return (
		isSameSet(a.addresses, [...b.addresses]) &&
		// Plain data with a fixed order of keys.
		JSON.stringify([a.arrivalAddress, a.nodePorts, a.pods]) ===
			JSON.stringify([b.arrivalAddress, b.nodePorts, b.pods])
	);
}

function isSameSet<T>(set: ReadonlySet<T>, list: readonly T[]): boolean {
	return new Set(list).size === set.size && list.every((item) => set.has(item));
}

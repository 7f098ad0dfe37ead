import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { runCommand, runCommandSync } from "./lab-command.ts";
import { LabNamespace } from "./lab-namespace.ts";
import { type LabPlan, namespacesOf, nodeBatch, peerBatch, planLab } from "./lab-plan.ts";
import { NETNS_FOLDER, removeNamespaces, sweepLabs } from "./lab-sweep.ts";

/**
 * Builds the network that kernel tests and the demo run in: one namespace each for the node, a client,
 * an outside host and the endpoints, joined by veth pairs. The host's own tables, addresses and
 * sysctls are never touched. Names hold the pid of the process that made them, so that labs of many
 * processes live side by side and what a killed process left is found by the next one.
 *
 * Addresses: see planLab(), and the plan in test/README.md.
 */
export interface Lab {
	readonly node: LabNamespace;
	readonly client: LabNamespace;
	readonly outside: LabNamespace;
	/** In order: the first is 10.2.1.2. */
	readonly endpoints: readonly LabNamespace[];
	/** False on a kernel without IPv6: then no IPv6 address of the plan exists. */
	readonly ipv6: boolean;
	/** Kills everything that runs in the lab and removes it. Idempotent. */
	close(): Promise<void>;
}

export interface LabOptions {
	/** How many endpoint namespaces. */
	readonly endpoints?: number;
	/**
	 * What the namespaces' names begin with, for a lab that is to outlive its process. It is then not
	 * removed when this process ends, and no sweep finds it.
	 */
	readonly keepAs?: string;
}

/** Labs of this process that are to go with it. */
const openLabs = new Set<LabPlan>();

export async function createLab({ endpoints = 3, keepAs }: LabOptions = {}): Promise<Lab> {
	const problem = labProblem();
	if (problem !== undefined) throw new Error(`Cannot build a lab: ${problem}`);
	sweepLabs();
	const plan = planLab(keepAs ?? freePrefix(), endpoints);
	if (keepAs === undefined) cleanUpAtExit(plan);
	const ipv6 = existsSync("/proc/net/if_inet6");
	try {
		await build(plan, ipv6);
	} catch (error) {
		removeNamespaces(namespacesOf(plan));
		openLabs.delete(plan);
		throw error;
	}
	return toLab(plan, ipv6);
}

let probed: { readonly problem: string | undefined } | undefined;

/** Why no lab can be built here, in words for the person who runs the tests; undefined: it can. */
export function labProblem(): string | undefined {
	probed ??= { problem: probeLab() };
	return probed.problem;
}

function probeLab(): string | undefined {
	if (process.getuid?.() !== 0) return "it needs root, or a system that lets others use unshare";
	const missing = ["ip", "iptables", "ip6tables", "conntrack"].filter(
		(name) => runCommandSync("sh", ["-c", `command -v ${name}`]).exitCode !== 0,
	);
	if (missing.length > 0) return `missing commands: ${missing.join(", ")} (run scripts/setup)`;
	const name = `kup-probe-${randomUUID()}`;
	const added = runCommandSync("ip", ["netns", "add", name]);
	runCommandSync("ip", ["netns", "del", name]);
	return added.exitCode === 0
		? undefined
		: `this kernel or container allows no network namespaces (${added.stderr.trim()})`;
}

let lastNumber = 0;

/** One that no lab of this process has, nor one that an earlier test file in it has left. */
function freePrefix(): string {
	do lastNumber += 1;
	while (existsSync(`${NETNS_FOLDER}/kup-${process.pid}-${lastNumber}-node`));
	return `kup-${process.pid}-${lastNumber}-`;
}

async function build(plan: LabPlan, ipv6: boolean): Promise<void> {
	const names = namespacesOf(plan);
	// In one synchronous go: a process that ends here must know what there is to remove.
	const added = runCommandSync(
		"ip",
		["-batch", "-"],
		names.map((n) => `netns add ${n}\n`).join(""),
	);
	if (added.exitCode !== 0) throw new Error(`Cannot add namespaces: ${added.stderr.trim()}`);
	await Promise.all(names.map((name) => setSysctls(name, name === plan.nodeNamespace, ipv6)));
	await ipBatch(plan.nodeNamespace, nodeBatch(plan, ipv6));
	await Promise.all(plan.peers.map((peer) => ipBatch(peer.namespace, peerBatch(peer, ipv6))));
}

function ipBatch(namespace: string, lines: readonly string[]): Promise<unknown> {
	return runCommand("ip", ["-n", namespace, "-batch", "-"], { input: `${lines.join("\n")}\n` });
}

/** Before any interface exists, since a new one takes the values of `default`. */
function setSysctls(namespace: string, forwards: boolean, ipv6: boolean): Promise<unknown> {
	const values = [
		...(forwards ? ["ipv4/ip_forward 1"] : []),
		...(forwards && ipv6 ? ["ipv6/conf/all/forwarding 1"] : []),
		// Duplicate address detection keeps an address "tentative" for a second.
		...(ipv6 ? ["ipv6/conf/default/accept_dad 0", "ipv6/conf/default/dad_transmits 0"] : []),
	];
	const script = 'while read -r key value; do echo "$value" > "/proc/sys/net/$key"; done';
	return runCommand("ip", ["netns", "exec", namespace, "sh", "-ec", script], {
		input: values.map((line) => `${line}\n`).join(""),
	});
}

function toLab(plan: LabPlan, ipv6: boolean): Lab {
	const peers = new Map(
		plan.peers.map((peer) => [
			peer.role,
			new LabNamespace(peer.role, peer.namespace, peer.addresses),
		]),
	);
	const [clientPlan] = plan.peers;
	const client = peers.get("client");
	const outside = peers.get("outside");
	if (clientPlan === undefined || client === undefined || outside === undefined) {
		throw new Error("Cannot build a lab: its plan has no client or no outside");
	}
	const { nodeIpv4, nodeIpv6 } = clientPlan.addresses;
	const node = new LabNamespace("node", plan.nodeNamespace, { ipv4: nodeIpv4, ipv6: nodeIpv6 });
	const close = async () => {
		await Promise.all([node, ...peers.values()].map((namespace) => namespace.close()));
		removeNamespaces(namespacesOf(plan));
		openLabs.delete(plan);
	};
	const endpoints = [...peers.values()].filter(({ role }) => /^ep\d+$/.test(role));
	return { node, client, outside, endpoints, ipv6, close };
}

let watchingExit = false;

function cleanUpAtExit(plan: LabPlan): void {
	openLabs.add(plan);
	if (watchingExit) return;
	watchingExit = true;
	const removeAll = () => {
		for (const open of openLabs) removeNamespaces(namespacesOf(open));
		openLabs.clear();
	};
	process.on("exit", removeAll);
	for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
		process.once(signal, () => {
			removeAll();
			// Whoever else listens (the test runner) decides how to end; alone, we end as by default.
			if (process.listenerCount(signal) === 0) process.kill(process.pid, signal);
		});
	}
}

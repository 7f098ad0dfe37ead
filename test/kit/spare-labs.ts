import { setTimeout as sleep } from "node:timers/promises";
import { createLab, type Lab } from "./lab.ts";
import { type CommandResult, runCommand } from "./lab-command.ts";
import { pidsInside } from "./lab-sweep.ts";

/*
 * A lab and its agents cost more processor time than most tests that need them. A lab that a test gives
 * back is taken by the next test of the file, but only if all that was done to it can be undone: packet
 * rules are flushed, processes killed, conntrack's settings set back. A test that changed addresses,
 * routes or sysctls, or used the legacy iptables (whose tables stay), has its lab closed.
 */

interface SpareLab {
	readonly lab: Lab;
	readonly endpoints: number;
	/** "/proc/sys/net/netfilter/…:120" of the node before anything ran there. */
	readonly settings: ReadonlySet<string>;
}

const taken = new Map<Lab, SpareLab>();
let spare: SpareLab[] = [];

/** What a killed daemon's last command may take to end. */
const PROCESSES_END_MS = 5_000;

/**
 * A lab as new, its agents running on the client and the endpoints. The kernel does not ration its ICMP errors: else
 * it sends one a second to each client, and a refusal may look like a loss.
 */
export async function takeLab(endpoints: number): Promise<Lab> {
	const there = spare.find((one) => one.endpoints === endpoints);
	spare = spare.filter((one) => one !== there);
	const chosen = there ?? (await newLab(endpoints));
	taken.set(chosen.lab, chosen);
	return chosen.lab;
}

/** Keeps a lab for the next test, or closes it. */
export async function giveBack(lab: Lab): Promise<void> {
	const one = taken.get(lab);
	if (one === undefined) return;
	taken.delete(lab);
	if (await isAsNew(one)) spare.push(one);
	else await lab.close();
}

/** Closes what is kept. Labs that are not given back go with the process. */
export async function closeSpareLabs(): Promise<void> {
	const closing = spare;
	spare = [];
	await Promise.all(closing.map(({ lab }) => lab.close()));
}

async function newLab(endpoints: number): Promise<SpareLab> {
	const lab = await createLab({ endpoints });
	const families = lab.ipv6
		? ["ipv4/icmp_ratelimit", "ipv6/icmp/ratelimit"]
		: ["ipv4/icmp_ratelimit"];
	await onNode(lab, "sh", "-ec", families.map((key) => `echo 0 > /proc/sys/net/${key}`).join("\n"));
	const settings = await settingsOf(lab);
	await Promise.all([lab.client, ...lab.endpoints].map((namespace) => namespace.agent()));
	return { lab, endpoints, settings };
}

async function isAsNew({ lab, settings }: SpareLab): Promise<boolean> {
	const namespaces = [lab.node, lab.client, lab.outside, ...lab.endpoints];
	const afresh = await Promise.all(namespaces.map((namespace) => namespace.startAfresh()));
	if (afresh.includes(false)) return false;
	try {
		await processesEnd(lab);
		await onNode(lab, "sh", "-ec", FLUSH);
		await setBack(lab, settings);
		return true;
	} catch {
		return false;
	}
}

/** What a killed daemon has started may still be writing rules. */
async function processesEnd(lab: Lab): Promise<void> {
	const agent = await lab.node.agentPid();
	const deadline = performance.now() + PROCESSES_END_MS;
	for (;;) {
		const others = pidsInside(lab.node.name).filter((pid) => pid !== agent);
		if (others.length === 0) return;
		if (performance.now() > deadline) throw new Error(`Processes ${others.join()} do not end`);
		// oxlint-disable-next-line no-await-in-loop -- polling
		await sleep(20);
	}
}

/** Fails where a table of the legacy variant is: it cannot be taken out of the kernel again. */
const FLUSH = `
for names in /proc/net/ip_tables_names /proc/net/ip6_tables_names; do
	[ ! -e "$names" ] || [ -z "$(cat "$names")" ]
done
nft flush ruleset
conntrack -F -f ipv4 2>&1
conntrack -F -f ipv6 2>&1`;

async function settingsOf(lab: Lab): Promise<ReadonlySet<string>> {
	const { stdout } = await onNode(lab, "grep", "-rs", ".", "/proc/sys/net/netfilter");
	const lines = stdout.split("\n").filter((line) => line !== "" && !line.includes("_count:"));
	return new Set(lines);
}

async function setBack(lab: Lab, settings: ReadonlySet<string>): Promise<void> {
	const lines = [...settings.difference(await settingsOf(lab))].map((line) => {
		const at = line.indexOf(":");
		return `echo '${line.slice(at + 1)}' > ${line.slice(0, at)}`;
	});
	if (lines.length > 0) await onNode(lab, "sh", "-ec", lines.join("\n"));
}

function onNode(lab: Lab, file: string, ...args: readonly string[]): Promise<CommandResult> {
	return runCommand("ip", ["netns", "exec", lab.node.name, file, ...args]);
}

import { beforeEach, describe, expect, it } from "vitest";
import { CommandError } from "../../../src/rules/command-error.ts";
import { UdpFlowCleaner } from "../../../src/rules/udp-flow-cleaner.ts";
import { udpTargets } from "../../../src/rules/udp-targets.ts";
import { type NodeNetwork, PLAIN_NETWORK } from "../../../src/services/node-network.ts";
import { toPort } from "../../../src/services/port.ts";
import { aBinding, anAddress } from "../../kit/bindings.ts";
import { FakeXtables } from "../../kit/fake-xtables.ts";
import { aRange } from "../../kit/ranges.ts";

const { signal } = new AbortController();
const dns = aBinding({
	protocol: "udp",
	addresses: ["10.96.0.53"],
	port: 53,
	proxyPort: 30_053,
	listenAddress: "10.1.0.1",
});
const targets = udpTargets([dns], "ipv4", PLAIN_NETWORK);
let host: FakeXtables;
let cleaner: UdpFlowCleaner;

beforeEach(() => {
	host = new FakeXtables();
	cleaner = new UdpFlowCleaner("ipv4", host);
});

function line(client: string, replySource: string, replyPort: number): string {
	return `udp 17 29 src=${client} dst=10.96.0.53 sport=4000 dport=53 src=${replySource} dst=${client} sport=${replyPort} dport=4000 mark=0 use=1`;
}

it("clean() runs nothing until something about UDP has changed (case 2f)", async () => {
	expect(await cleaner.clean(signal)).toEqual({ state: "idle" });
	cleaner.expect(udpTargets([aBinding()], "ipv4", PLAIN_NETWORK), []);
	expect(await cleaner.clean(signal)).toEqual({ state: "idle" });

	expect(host.ran).toEqual([]);
});

it("clean() lists once and deletes thousands of clients of one wrong target in one call (classic 9.1.29)", async () => {
	const clients = Array.from({ length: 5_000 }, (_, i) => `10.1.${i >> 8}.${i & 255}`);
	host.conntrack = [
		...clients.map((client) => line(client, "10.96.0.53", 53)),
		line("10.1.0.2", "10.1.0.1", 29_999),
		line("10.1.0.3", "10.1.0.1", 30_053),
	];
	cleaner.expect(targets, []);

	expect(await cleaner.clean(signal)).toEqual({ state: "cleaned", deleted: 2 });
	expect(host.deletions).toEqual([
		"-D -f ipv4 -p udp --orig-dst 10.96.0.53 --dport 53 --reply-src 10.96.0.53 --reply-port-src 53\n" +
			"-D -f ipv4 -p udp --orig-dst 10.96.0.53 --dport 53 --reply-src 10.1.0.1 --reply-port-src 29999\n",
	]);
	expect(host.ran).toEqual(["conntrack -L -f ipv4 -p udp", "conntrack -R -"]);
	expect(await cleaner.clean(signal)).toEqual({ state: "idle" });
});

it("a failure is tried again and forgets nothing (classic 9.7.2)", async () => {
	host.conntrack = [line("10.1.0.2", "10.1.0.1", 29_999)];
	host.failBefore = () => new CommandError("COMMAND_TIMED_OUT", { file: "conntrack" });
	cleaner.expect(
		[],
		[
			{
				address: "10.96.0.53",
				port: 53,
				proxyPort: 29_999,
				listenAddress: undefined,
				clients: "all",
				serves: true,
			},
		],
	);
	expect(await cleaner.clean(signal)).toMatchObject({ state: "failed" });

	host.failBefore = () => undefined;
	cleaner.expect([], []);

	expect(await cleaner.clean(signal)).toEqual({ state: "cleaned", deleted: 1 });
});

it("a host without conntrack is told", async () => {
	host.failBefore = () => new CommandError("COMMAND_NOT_INSTALLED", { file: "conntrack" });
	cleaner.expect(targets, []);

	expect(await cleaner.clean(signal)).toEqual({ state: "absent" });
});

it("an old conntrack without -R gets single calls, and a flow that ended meanwhile is no failure (classic 9.7.2)", async () => {
	host.conntrack = [line("10.1.0.2", "10.1.0.1", 29_999), line("10.1.0.2", "10.1.0.1", 29_998)];
	host.failBefore = (command) => {
		if (command === "conntrack -R -") {
			return new CommandError("COMMAND_FAILED", { file: "conntrack", exitStatus: 2 });
		}
		if (!command.endsWith("29999")) return undefined;
		const stderr = "conntrack v1.4.4 (conntrack-tools): 0 flow entries have been deleted.";
		return new CommandError("COMMAND_FAILED", { file: "conntrack", exitStatus: 1, stderr });
	};
	cleaner.expect(targets, []);

	expect(await cleaner.clean(signal)).toEqual({ state: "cleaned", deleted: 2 });
	expect(host.deletions).toHaveLength(1);
});

it("single calls are bounded; the rest is left for the next pass", async () => {
	host.conntrack = Array.from({ length: 80 }, (_, i) => line("10.1.0.2", "10.1.0.1", 20_000 + i));
	host.failBefore = (command) =>
		command === "conntrack -R -"
			? new CommandError("COMMAND_FAILED", { file: "conntrack", exitStatus: 2 })
			: undefined;
	cleaner.expect(targets, []);

	expect(await cleaner.clean(signal)).toEqual({ state: "cleaned", deleted: 50 });
	host.conntrack = host.conntrack.slice(50);
	expect(await cleaner.clean(signal)).toEqual({ state: "cleaned", deleted: 30 });
	expect(await cleaner.clean(signal)).toEqual({ state: "idle" });
});

it("old targets are remembered up to a bound while conntrack fails; the oldest are forgotten", async () => {
	const target = (proxyPort: number) => ({
		address: "10.96.0.53",
		port: 53,
		proxyPort,
		listenAddress: undefined,
		clients: "all" as const,
		serves: true,
	});
	const all = Array.from({ length: 10_001 }, (_, i) => target(20_000 + i));
	cleaner.expect([], all);
	host.conntrack = [line("10.1.0.2", "10.1.0.1", 20_000), line("10.1.0.2", "10.1.0.1", 30_000)];

	expect(await cleaner.clean(signal)).toEqual({ state: "cleaned", deleted: 1 });
	expect(host.deletions.join("")).toContain("--reply-port-src 30000");
});

it("what changed while clean() was at work is judged by the newer rules, and is not forgotten", async () => {
	const moved = { ...dns, proxyPort: toPort(30_054) };
	host.conntrack = [
		line("10.1.0.2", "10.1.0.1", 29_999),
		line("10.1.0.2", "10.1.0.1", 30_053),
		line("10.1.0.2", "10.1.0.1", 30_054),
	];
	host.meddle = (command) => {
		if (command.startsWith("conntrack -L"))
			cleaner.expect(udpTargets([moved], "ipv4", PLAIN_NETWORK), []);
		host.meddle = () => {};
	};
	cleaner.expect(targets, []);

	expect(await cleaner.clean(signal)).toEqual({ state: "cleaned", deleted: 1 });
	expect(host.deletions.join("")).toContain("--reply-port-src 29999");
	expect(host.deletions.join("")).not.toContain("--reply-port-src 30054");

	expect(await cleaner.clean(signal)).toEqual({ state: "cleaned", deleted: 2 });
	expect(host.deletions.join("")).toContain("--reply-port-src 30053");
});

describe("clean() where a policy parts the clients of an address", () => {
	const fields = {
		protocol: "udp",
		addresses: ["10.96.0.53"],
		kind: "LoadBalancerIP",
		port: 53,
		listenAddress: "10.1.0.1",
	} as const;
	const bindings = [
		aBinding({ ...fields, clients: "inside", proxyPort: 30_053 }),
		aBinding({ ...fields, clients: "outside", pool: "local", proxyPort: 30_054 }),
	];
	const NODE = "10.1.0.1";
	const POD = "10.2.1.2";
	const OUTSIDE = "10.3.0.2";
	/** The clients whose flows are deleted, of these three in the one pool and in the other. */
	const deletedWith = async (pods: NodeNetwork["pods"]) => {
		const network = { ...PLAIN_NETWORK, addresses: new Set([anAddress(NODE)]), pods };
		host.conntrack = [NODE, POD, OUTSIDE].flatMap((client) =>
			[30_053, 30_054].map((replyPort) => line(client, "10.1.0.1", replyPort)),
		);
		cleaner.expect(udpTargets(bindings, "ipv4", network), [], network);
		await cleaner.clean(signal);
		return host.deletions
			.join("")
			.split("\n")
			.filter(Boolean)
			.map((args) => /--orig-src (\S+) .*--reply-port-src (\d+)$/.exec(args)?.slice(1).join(" "));
	};

	it("deletes each client's flow by itself, by where the client is", async () => {
		expect(await deletedWith({ ranges: [aRange("10.2.0.0/16")], interfaces: [] })).toEqual([
			`${NODE} 30054`,
			`${POD} 30054`,
			`${OUTSIDE} 30053`,
		]);
	});

	it("takes all but the node for outside where nobody knows who is a Pod", async () => {
		expect(await deletedWith({ ranges: [], interfaces: [] })).toEqual([
			`${NODE} 30054`,
			`${POD} 30053`,
			`${OUTSIDE} 30053`,
		]);
	});

	it("leaves those alone that cannot be told, as where Pods are known by their interface", async () => {
		expect(await deletedWith({ ranges: [], interfaces: ["cali+"] })).toEqual([`${NODE} 30054`]);
	});
});

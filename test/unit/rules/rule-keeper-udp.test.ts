import { setImmediate } from "node:timers/promises";
import { beforeEach, expect, it } from "vitest";
import { CommandError } from "../../../src/rules/command-error.ts";
import type { RuleKeeper } from "../../../src/rules/rule-keeper.ts";
import { type NodeNetwork, PLAIN_NETWORK } from "../../../src/services/node-network.ts";
import type { Binding } from "../../../src/services/service-port.ts";
import { aBinding, anAddress, wantedRules } from "../../kit/bindings.ts";
import { FakeXtables } from "../../kit/fake-xtables.ts";
import { dns, keeperOn, shop, states, web } from "../../kit/keeper.ts";

const { signal } = new AbortController();

let host: FakeXtables;
let keeper: RuleKeeper;

beforeEach(async () => {
	host = new FakeXtables();
	keeper = await keeperOn(host);
	host.ran.length = 0;
});

const flow = (port: number, source = "10.1.0.1") =>
	`udp 17 29 src=10.1.0.2 dst=10.96.0.53 sport=4000 dport=53 src=${source} dst=10.1.0.2 sport=${port} dport=4000 mark=0 use=1`;

it("UDP flows are looked at when UDP rules have changed, and at no other time (case 2f, classic 9.1.29)", async () => {
	const listings = async () => {
		await keeper.cleanFlows(signal);
		return host.ran.filter((command) => command.startsWith("conntrack -L")).length;
	};
	await keeper.apply(wantedRules([web]), signal);
	expect(await listings()).toBe(0);
	await keeper.apply(wantedRules([web, dns]), signal);
	expect(await listings()).toBe(1);
	await keeper.apply(wantedRules([shop, dns]), signal);
	await keeper.verify(signal);
	expect(await listings()).toBe(1);
	host.ipv4.flush();
	await keeper.verify(signal);
	expect(await listings()).toBe(2);
	await keeper.apply(wantedRules([shop]), signal);
	expect(await listings()).toBe(3);
});

it("flows that were led to an address which the node has lost are freed, though no rule has changed", async () => {
	const on = (...addresses: string[]): NodeNetwork => ({
		...PLAIN_NETWORK,
		addresses: new Set(addresses.map(anAddress)),
	});
	const everywhere = { ...dns, listenAddress: undefined };
	const cleaned = async (binding: Binding, network: NodeNetwork) => {
		expect(await states(keeper.apply(wantedRules([binding], network), signal))).toContain("intact");
		host.ran.length = 0;
		await keeper.cleanFlows(signal);
		return host.ran.map((command) => command.split(" -f")[0]);
	};
	const [both, other] = [on("10.1.0.1", "10.3.0.1", "fe80::1"), on("10.3.0.1", "fe80::1")];
	expect(await cleaned(everywhere, both)).toEqual(["conntrack -L"]);
	host.conntrack = [flow(30_053), flow(30_053, "10.3.0.1")];
	expect(await cleaned(everywhere, both)).toEqual([]);
	expect(await cleaned(everywhere, other)).toEqual(["conntrack -L", "conntrack -R -"]);
	expect(host.deletions.join("")).toContain("--reply-src 10.1.0.1 ");
	expect(host.deletions.join("")).not.toContain("--reply-src 10.3.0.1 ");
	// Again, and one of the other family.
	expect(await cleaned(everywhere, on("10.3.0.1", "fe80::1"))).toEqual([]);
	expect(await cleaned(everywhere, on("10.3.0.1"))).toEqual([]);
	// One more address takes nothing from anybody, and nothing else leads to an address that goes.
	expect(await cleaned(everywhere, both)).toEqual([]);
	expect(await cleaned(dns, both)).toEqual(["conntrack -L", "conntrack -R -"]);
	expect(await cleaned(dns, other)).toEqual([]);
});

it("a conntrack that hangs holds up no change of the rules", async () => {
	host.hangs = (command) => command.startsWith("conntrack");
	const cleaning = new AbortController();
	await keeper.apply(wantedRules([dns]), signal);
	const cleaned = keeper.cleanFlows(cleaning.signal);

	expect(await states(keeper.apply(wantedRules([web]), signal))).toEqual(["applied", "intact"]);
	expect(await states(keeper.remove(signal))).toEqual(["applied", "applied"]);

	cleaning.abort();
	expect(await cleaned).toMatchObject([
		{ family: "ipv4", result: { state: "failed", error: { code: "COMMAND_CANCELED" } } },
		{ family: "ipv6", result: { state: "idle" } },
	]);
});

it("cleanings at the same time are done one after the other", async () => {
	host.hangs = (command) => command.startsWith("conntrack");
	const first = new AbortController();
	await keeper.apply(wantedRules([dns]), signal);
	const cleanings = [keeper.cleanFlows(first.signal), keeper.cleanFlows(signal)];
	await setImmediate();
	expect(host.ran.filter((command) => command.startsWith("conntrack"))).toHaveLength(1);

	host.hangs = () => false;
	first.abort();

	expect((await Promise.all(cleanings)).map(([ipv4]) => ipv4?.result.state)).toEqual([
		"failed",
		"cleaned",
	]);
});

const other = aBinding({
	service: "other",
	protocol: "udp",
	addresses: ["10.96.0.53"],
	port: 54,
	proxyPort: 30_054,
	listenAddress: "10.1.0.1",
});

it.each<[string, Binding[], Binding[], readonly string[], number]>([
	["a flow from before the rule", [], [dns], [flow(53, "10.96.0.53")], 1],
	["a flow of a removed ServicePort", [dns], [], [flow(30_053), flow(53, "10.2.1.2")], 1],
	["a flow of one that refuses now", [dns], [{ ...dns, verdict: "reject" }], [flow(30_053)], 1],
	["a flow that is right", [web], [dns], [flow(30_053)], 0],
	[
		"of two ports of an address, the flow of the one that went, and not the other's,",
		[dns, other],
		[dns],
		[flow(30_053), flow(30_054).replace("dport=53 ", "dport=54 ")],
		1,
	],
])("%s is dealt with (classic 9.4.11, 9.5.3)", async (_, before, after, flows, deletions) => {
	await keeper.apply(wantedRules(before), signal);
	host.conntrack = flows;

	await keeper.apply(wantedRules(after), signal);
	await keeper.cleanFlows(signal);

	expect(host.deletions.join("").split("\n").filter(Boolean)).toHaveLength(deletions);
});

it("a successor deletes flows to the predecessor's port, also of ServicePorts that went meanwhile", async () => {
	await keeper.apply(wantedRules([dns]), signal);
	const successor = await keeperOn(host);
	host.conntrack = [flow(30_053)];

	await successor.apply(wantedRules([web]), signal);
	await successor.cleanFlows(signal);

	expect(host.deletions).toHaveLength(1);
});

it("captureOff() leaves UDP flows alone, remove() ends them", async () => {
	await keeper.apply(wantedRules([dns]), signal);
	await keeper.cleanFlows(signal);
	host.conntrack = [flow(30_053)];

	await keeper.captureOff(signal);
	await keeper.cleanFlows(signal);
	expect(host.deletions).toEqual([]);
	await keeper.remove(signal);
	await keeper.cleanFlows(signal);
	expect(host.deletions).toHaveLength(1);
});

it("without conntrack rules are applied all the same, and it is counted", async () => {
	host.failBefore = (command) =>
		command.startsWith("conntrack")
			? new CommandError("COMMAND_NOT_INSTALLED", { file: "conntrack" })
			: undefined;

	expect(await states(keeper.apply(wantedRules([dns]), signal))).toEqual(["applied", "intact"]);

	expect(await keeper.cleanFlows(signal)).toEqual([
		{ family: "ipv4", result: { state: "absent" } },
		{ family: "ipv6", result: { state: "idle" } },
	]);
	expect(keeper.facts().conntrackFailures).toBe(1);
});

it("a repair after captureOff() leaves flows alone that whoever took over has made", async () => {
	await keeper.apply(wantedRules([dns]), signal);
	await keeper.cleanFlows(signal);
	await keeper.captureOff(signal);
	host.conntrack = [flow(53, "10.2.1.2")];
	host.ipv4.flush();

	const { families } = await keeper.verify(signal);
	await keeper.cleanFlows(signal);

	expect(families[0]?.result).toMatchObject({ state: "repaired" });
	expect(host.deletions).toEqual([]);
});

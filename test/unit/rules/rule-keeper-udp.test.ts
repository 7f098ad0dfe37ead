import { beforeEach, expect, it } from "vitest";
import { CommandError } from "../../../src/rules/command-error.ts";
import type { RuleKeeper } from "../../../src/rules/rule-keeper.ts";
import type { Binding } from "../../../src/services/service-port.ts";
import { FakeXtables } from "../../kit/fake-xtables.ts";
import { dns, keeperOn, shop, web } from "../../kit/keeper.ts";

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

it("UDP flows are looked at when UDP rules have changed, and at no other time", async () => {
	const listings = () => host.ran.filter((command) => command.startsWith("conntrack -L")).length;
	await keeper.apply([web], signal);
	expect(listings()).toBe(0);
	await keeper.apply([web, dns], signal);
	expect(listings()).toBe(1);
	await keeper.apply([shop, dns], signal);
	await keeper.verify(signal);
	expect(listings()).toBe(1);
	host.ipv4.flush();
	await keeper.verify(signal);
	expect(listings()).toBe(2);
	await keeper.apply([shop], signal);
	expect(listings()).toBe(3);
});

it.each<[string, Binding[], Binding[], readonly string[], number]>([
	["a flow from before the rule", [], [dns], [flow(53, "10.96.0.53")], 1],
	["a flow of a removed ServicePort", [dns], [], [flow(30_053), flow(53, "10.2.1.2")], 1],
	["a flow of one that refuses now", [dns], [{ ...dns, refuses: true }], [flow(30_053)], 1],
	["a flow that is right", [web], [dns], [flow(30_053)], 0],
])("%s is dealt with", async (_, before, after, flows, deletions) => {
	await keeper.apply(before, signal);
	host.conntrack = flows;

	await keeper.apply(after, signal);

	expect(host.deletions.join("").split("\n").filter(Boolean)).toHaveLength(deletions);
});

it("a successor deletes flows to the predecessor's port, also of ServicePorts that went meanwhile", async () => {
	await keeper.apply([dns], signal);
	const successor = await keeperOn(host);
	host.conntrack = [flow(30_053)];

	await successor.apply([web], signal);

	expect(host.deletions).toHaveLength(1);
});

it("captureOff() leaves UDP flows alone, remove() ends them", async () => {
	await keeper.apply([dns], signal);
	host.conntrack = [flow(30_053)];

	await keeper.captureOff(signal);
	expect(host.deletions).toEqual([]);
	await keeper.remove(signal);
	expect(host.deletions).toHaveLength(1);
});

it("without conntrack rules are applied all the same, and it is counted", async () => {
	host.failBefore = (command) =>
		command.startsWith("conntrack")
			? new CommandError("COMMAND_NOT_INSTALLED", { file: "conntrack" })
			: undefined;

	const { families } = await keeper.apply([dns], signal);

	expect(families[0]).toMatchObject({
		result: { state: "applied" },
		conntrack: { state: "absent" },
	});
	expect(keeper.facts().conntrackFailures).toBe(1);
});

it("a repair after captureOff() leaves flows alone that whoever took over has made", async () => {
	await keeper.apply([dns], signal);
	await keeper.captureOff(signal);
	host.conntrack = [flow(53, "10.2.1.2")];
	host.ipv4.flush();

	const { families } = await keeper.verify(signal);

	expect(families[0]?.result).toMatchObject({ state: "repaired" });
	expect(host.deletions).toEqual([]);
});

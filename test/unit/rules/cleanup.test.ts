import { expect, it } from "vitest";
import { cleanup } from "../../../src/rules/cleanup.ts";
import { CommandError } from "../../../src/rules/command-error.ts";
import { planRules } from "../../../src/rules/plan.ts";
import { restoreText } from "../../../src/rules/restore-text.ts";
import { parseSavedRules } from "../../../src/rules/saved-rules.ts";
import { aBinding, wantedRules } from "../../kit/bindings.ts";
import { FakeXtables } from "../../kit/fake-xtables.ts";

const { signal } = new AbortController();
const readTextFile = () => Promise.resolve("");

function aHostWithRules(): FakeXtables {
	const host = new FakeXtables();
	const bindings = [aBinding(), aBinding({ addresses: ["fd96::10"] })];
	host.ipv4.restore(restoreText(planRules(wantedRules(bindings), "ipv4"), parseSavedRules("")));
	host.ipv6.restore(restoreText(planRules(wantedRules(bindings), "ipv6"), parseSavedRules("")));
	return host;
}

it("cleanup() takes everything away in both families, and finds nothing the second time (classic 9.1.30)", async () => {
	const runner = aHostWithRules();

	expect(await cleanup({ runner, signal, readTextFile })).toEqual({
		cleaned: [
			{ family: "ipv4", variant: "nft" },
			{ family: "ipv6", variant: "nft" },
		],
		problems: [],
	});
	expect(runner.ipv4.save() + runner.ipv6.save()).not.toContain("KUBE");
	expect(await cleanup({ runner, signal, readTextFile })).toEqual({ cleaned: [], problems: [] });
});

it("cleanup() takes away a jump that was left without its chains' rules", async () => {
	const runner = new FakeXtables();
	runner.ipv4.restore("*nat\n:KUBE-PORTALS-HOST - [0:0]\n-A OUTPUT -j KUBE-PORTALS-HOST\nCOMMIT\n");

	await cleanup({ runner, signal, readTextFile });

	expect(runner.ipv4.save()).not.toContain("KUBE");
});

it("cleanup() says what it could not take away, and does the rest (classic 9.1.30)", async () => {
	const runner = aHostWithRules();
	runner.ipv4.chains("nat").get("POSTROUTING")?.push("-s 10.0.0.1/32 -j KUBE-PORTALS-HOST");

	const { problems } = await cleanup({ runner, signal, readTextFile });

	expect(problems).toEqual([
		"ipv4 (nft): chain KUBE-PORTALS-HOST in table nat is empty but cannot be deleted: " +
			"a rule of somebody else leads to it (-A POSTROUTING -s 10.0.0.1/32 -j KUBE-PORTALS-HOST)",
	]);
	expect(runner.ipv6.save()).not.toContain("KUBE");
});

it("cleanup() of one family goes on when the other fails", async () => {
	const runner = aHostWithRules();
	runner.failBefore = (command) =>
		command.startsWith("iptables-nft-restore --noflush")
			? new CommandError("COMMAND_LOCK_HELD", { file: "iptables-nft-restore" })
			: undefined;

	const { cleaned, problems } = await cleanup({ runner, signal, readTextFile });

	expect(cleaned).toEqual([{ family: "ipv6", variant: "nft" }]);
	expect(problems).toEqual([expect.stringContaining("xtables lock")]);
});

it("cleanup() ends UDP flows that led to a proxy port, and no others", async () => {
	const runner = new FakeXtables();
	const dns = aBinding({
		protocol: "udp",
		addresses: ["10.96.0.53"],
		port: 53,
		listenAddress: "10.1.0.1",
	});
	runner.ipv4.restore(restoreText(planRules(wantedRules([dns]), "ipv4"), parseSavedRules("")));
	const flow = (from: string, port: number) =>
		`udp 17 29 src=10.1.0.2 dst=10.96.0.53 sport=4000 dport=53 src=${from} dst=10.1.0.2 sport=${port} dport=4000 mark=0 use=1`;
	runner.conntrack = [flow("10.1.0.1", 30_001), flow("10.2.1.2", 53)];

	await cleanup({ runner, signal, readTextFile });

	expect(runner.deletions).toEqual([
		"-D -f ipv4 -p udp --orig-dst 10.96.0.53 --dport 53 --reply-src 10.1.0.1 --reply-port-src 30001\n",
	]);
});

import { expect, it } from "vitest";
import { planRules } from "../../../src/rules/plan.ts";
import { previousBindings } from "../../../src/rules/previous.ts";
import { restoreText } from "../../../src/rules/restore-text.ts";
import { parseSavedRules } from "../../../src/rules/saved-rules.ts";
import { PLAIN_NETWORK } from "../../../src/services/node-network.ts";
import { aBinding, wantedRules } from "../../kit/bindings.ts";
import { aRange } from "../../kit/ranges.ts";

function savedRule(rule: string) {
	return parseSavedRules(
		`*nat\n:KUBE-PORTALS-CONTAINER - [0:0]\n-A KUBE-PORTALS-CONTAINER ${rule}\nCOMMIT\n`,
	);
}

it("previousBindings() reads back what was planned, both families", () => {
	const web = aBinding();
	const dns = aBinding({
		protocol: "udp",
		portName: "",
		addresses: ["fd96::10"],
		port: 53,
		listenAddress: "fd10::1",
	});
	const saved4 = parseSavedRules(
		restoreText(planRules(wantedRules([web]), "ipv4"), parseSavedRules("")),
	);
	const saved6 = parseSavedRules(
		restoreText(planRules(wantedRules([dns]), "ipv6"), parseSavedRules("")),
	);

	expect(previousBindings(saved4, "ipv4")).toEqual([
		{
			key: web.key,
			protocol: "tcp",
			family: "ipv4",
			address: "10.96.0.10",
			port: 80,
			proxyPort: 30_001,
			listenAddress: undefined,
		},
	]);
	expect(previousBindings(saved6, "ipv6")).toMatchObject([
		{ key: dns.key, address: "fd96::10", port: 53, proxyPort: 30_001, listenAddress: "fd10::1" },
	]);
});

it.each([
	["a classic kube-proxy's", '"shop/cart:http"'],
	["a cut one", `"${"x".repeat(242)}~0123456789ab"`],
	["one with a replaced character", '"shop/ca?t:http/tcp/ipv4"'],
	["one for the other protocol", '"shop/cart:http/udp/ipv4"'],
	["one for the other family", '"shop/cart:http/tcp/ipv6"'],
])("a comment that is no key of ours (%s) gives the addresses without a key", (_, comment) => {
	const saved = savedRule(
		`-d 10.96.0.10/32 -p tcp -m comment --comment ${comment} -m tcp --dport 80 -j REDIRECT --to-ports 30001`,
	);

	expect(previousBindings(saved, "ipv4")).toMatchObject([{ key: undefined, proxyPort: 30_001 }]);
});

it.each([
	["no destination", "-p tcp -m tcp --dport 80 -j REDIRECT --to-ports 30001"],
	["a range", "-d 10.96.0.0/16 -p tcp -m tcp --dport 80 -j REDIRECT --to-ports 30001"],
	["no port", "-d 10.96.0.10/32 -p tcp -j REDIRECT --to-ports 30001"],
	["a port of no sense", "-d 10.96.0.10/32 -p tcp -m tcp --dport 80 -j REDIRECT --to-ports 70000"],
	["another target", "-d 10.96.0.10/32 -p tcp -m tcp --dport 80 -j ACCEPT"],
	["another protocol", "-d 10.96.0.10/32 -p sctp -m sctp --dport 80 -j REDIRECT --to-ports 30001"],
	["a broken target", "-d 10.96.0.10/32 -p tcp -m tcp --dport 80 -j DNAT --to-destination x"],
])("a rule with %s is left out", (_, rule) => {
	expect(previousBindings(savedRule(rule), "ipv4")).toEqual([]);
});

it("previousBindings() reads node ports and both pools of a port back", () => {
	const fields = { nodePort: 30_080, listenAddress: "10.1.0.1", protocol: "udp" } as const;
	const cluster = aBinding({ ...fields, clients: "inside" });
	const local = aBinding({ ...fields, clients: "outside", pool: "local", proxyPort: 30_002 });
	const network = {
		...PLAIN_NETWORK,
		nodePorts: {
			ranges: { ipv4: [aRange("10.1.0.1/32"), aRange("10.3.0.0/16")], ipv6: [] },
			onLoopback: true,
		},
		pods: { ranges: [aRange("10.2.0.0/16")], interfaces: [] },
	};
	const saved = parseSavedRules(
		restoreText(planRules(wantedRules([cluster, local], network), "ipv4"), parseSavedRules("")),
	);
	const found = previousBindings(saved, "ipv4").map(
		({ key, address, port, proxyPort, listenAddress }) =>
			`${key} ${address}:${port} ${listenAddress}:${proxyPort}`,
	);

	expect(cluster.key).toBe("shop/cart:http/udp/ipv4");
	expect(found).toEqual([
		`${cluster.key} 10.96.0.10:80 10.1.0.1:30001`,
		`${cluster.key}/local 10.96.0.10:80 10.1.0.1:30002`,
		// A node port's once for each range: which addresses those were nobody knows any more.
		`${cluster.key} undefined:30080 10.1.0.1:30001`,
		`${cluster.key} undefined:30080 10.1.0.1:30001`,
		`${cluster.key}/local undefined:30080 10.1.0.1:30002`,
		`${cluster.key}/local undefined:30080 10.1.0.1:30002`,
	]);
});

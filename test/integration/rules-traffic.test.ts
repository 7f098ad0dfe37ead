import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { RuleKeeper } from "../../src/rules/rule-keeper.ts";
import type { Variant } from "../../src/rules/xtables.ts";
import type { IpFamily } from "../../src/services/address.ts";
import type { Binding } from "../../src/services/service-port.ts";
import type { Agent, RemoteServer } from "../kit/agent.ts";
import { aBinding, wantedRules } from "../kit/bindings.ts";
import {
	createRulesLab,
	never,
	type RulesLab,
	rulesLabProblem,
	sweepRules,
} from "../kit/rules-lab.ts";

// Listeners are plain servers on the node, in place of the proxies: what is tested are the rules.
const PROXY_PORT = 21_001;

/** Where no answer is what we want: long after the answer would have come. */
const quick = { timeoutMs: 500 };

const ADDRESSES = {
	ipv4: { web: "10.96.0.10", dns: "10.96.0.53", any: "0.0.0.0", node: "10.1.0.1" },
	ipv6: { web: "fd96::10", dns: "fd96::53", any: "::", node: "fd10:1::1" },
} as const;

const cases = (["nft", "legacy"] as const).flatMap((variant) =>
	(["ipv4", "ipv6"] as const).map((family) => ({ variant, family })),
);

describe.each(cases)("rules in $variant $family", ({ variant, family }) => {
	const problem = rulesLabProblem(variant, family);
	describe.skipIf(problem !== undefined)(problem ?? "on a real kernel", () => {
		trafficTests(variant, family);
	});
});

function trafficTests(variant: Variant, family: IpFamily): void {
	const { web: webAddress, dns: dnsAddress, any, node: nodeAddress } = ADDRESSES[family];
	const web = aBinding({ addresses: [webAddress], port: 80, proxyPort: PROXY_PORT });
	const dns = aBinding({
		service: "dns",
		protocol: "udp",
		addresses: [dnsAddress],
		port: 53,
		proxyPort: PROXY_PORT,
		listenAddress: nodeAddress,
	});
	let rules: RulesLab;
	let keeper: RuleKeeper;
	let client: Agent;
	let node: Agent;

	beforeAll(async () => {
		rules = await createRulesLab(variant);
		[client, node] = await Promise.all([rules.lab.client.agent(), rules.lab.node.agent()]);
		await node.serveTcp({ mode: "greet", name: "tcp", port: PROXY_PORT, address: any });
		await node.serveUdp({ mode: "name", name: "udp", port: PROXY_PORT, address: nodeAddress });
		keeper = await rules.keeper();
	});

	afterEach(async () => {
		const { families } = await keeper.remove(never);
		await keeper.cleanFlows(never);
		expect(families.map(({ result }) => result.state)).not.toContain("failed");
		expect(await sweepRules(rules)).toEqual([]);
	});

	afterAll(async () => {
		await rules.lab.close();
	});

	async function apply(...bindings: readonly Binding[]): Promise<void> {
		const { families } = await keeper.apply(wantedRules(bindings), never);
		expect(families.map(({ result }) => result)).not.toContainEqual(
			expect.objectContaining({ state: "failed" }),
		);
		await keeper.cleanFlows(never);
	}

	const tcp = async (agent: Agent, fields: object = {}) => {
		const [result] = await agent.tcp({ address: webAddress, port: 80, ...fields });
		return result?.error ?? result?.answer;
	};
	const udp = async (agent: Agent, fields: object = {}) => {
		const traffic = { address: dnsAddress, port: 53, timeoutMs: 5_000, connected: true, ...fields };
		const [result] = await agent.udp(traffic);
		return result?.error ?? result?.answer;
	};

	it("lead TCP and UDP from a client and from the node itself to the listeners (classic 9.1.27)", async () => {
		await apply(web, dns);

		expect(await tcp(client)).toBe("tcp");
		expect(await tcp(node)).toBe("tcp");
		expect(await udp(client)).toBe("udp");
		expect(await udp(node)).toBe("udp");
	});

	it("make UDP answers come from the address that was asked", async () => {
		await apply(dns);

		const [answer] = await client.udp({ address: dnsAddress, port: 53 });

		expect(answer?.from).toBe(family === "ipv4" ? `${dnsAddress}:53` : `[${dnsAddress}]:53`);
	});

	it("refuse at once without endpoints, and recover (case 2e, case 34a, case 34c)", async () => {
		const refusing = [web, dns].map((binding) => ({ ...binding, verdict: "reject" as const }));
		await apply(...refusing);
		for (const agent of [client, node]) {
			expect(await tcp(agent)).toBe("ECONNREFUSED");
			expect(await udp(agent)).toBe("ECONNREFUSED");
		}

		await apply(web, dns);

		for (const agent of [client, node]) {
			expect(await tcp(agent)).toBe("tcp");
			expect(await udp(agent)).toBe("udp");
		}
	});

	it("refuse the next datagram of a UDP client that was served until now", async () => {
		await apply(dns);
		expect(await udp(client, { localPort: 45_000 })).toBe("udp");

		await apply({ ...dns, verdict: "reject" });

		expect(await udp(client, { localPort: 45_000 })).toBe("ECONNREFUSED");
	});

	it("keep an established connection when its Service has no endpoint any more", async () => {
		const echo = await node.serveTcp({ mode: "echo", name: "echo", port: 21_002, address: any });
		const binding = { ...web, proxyPort: aBinding({ proxyPort: echo.port }).proxyPort };
		await apply(binding);
		const connection = await client.connect({ address: webAddress, port: 80 });
		await connection.write("one");
		await connection.read(3);

		await apply({ ...binding, verdict: "reject" });
		await connection.write("two");

		expect((await connection.read(6)).bytes).toBe(6);
		await connection.finish("destroy");
		await echo.close();
	});

	it("drop what comes straight to a proxy port, but not from the node", async () => {
		await apply(web, dns);
		const direct = { address: nodeAddress, port: PROXY_PORT };

		const straight = { ...direct, ...quick };
		expect(await Promise.all([tcp(client, straight), udp(client, straight)])).toEqual([
			"TIMEOUT",
			"TIMEOUT",
		]);
		expect(await tcp(node, direct)).toBe("tcp");
		expect(await udp(node, direct)).toBe("udp");
	});

	it("work on a host that drops all it does not know, for redirected packets only (case 10a)", async () => {
		const hostRules = ["-A INPUT -m conntrack --ctstate ESTABLISHED -j ACCEPT"];
		// IPv6 finds neighbours by ICMP: every such host lets it in.
		if (family === "ipv6") hostRules.push("-A INPUT -p ipv6-icmp -j ACCEPT");
		await rules.iptables("-P INPUT DROP", family);
		for (const rule of hostRules) await rules.iptables(rule, family);
		try {
			await apply(web, dns);
			expect(await tcp(client)).toBe("tcp");
			expect(await udp(client)).toBe("udp");
			expect(await tcp(node)).toBe("tcp");
			const direct = { address: nodeAddress, port: PROXY_PORT, ...quick };
			const ssh = { ...direct, port: 22 };
			expect(await Promise.all([tcp(client, direct), tcp(client, ssh)])).toEqual([
				"TIMEOUT",
				"TIMEOUT",
			]);
			await apply({ ...web, verdict: "reject" });
			expect(await tcp(client)).toBe("ECONNREFUSED");
		} finally {
			for (const rule of hostRules) await rules.iptables(rule.replace("-A", "-D"), family);
			await rules.iptables("-P INPUT ACCEPT", family);
		}
	});

	it("reach a UDP client that sent from one port before there was a rule (case 2a)", async () => {
		// conntrack does nothing in a namespace until some rule uses it, and a packet without a route
		// leaves no entry: the outside host swallows it.
		await rules.iptables("-t nat -A POSTROUTING -p icmp -j RETURN", family);
		const { outside, node: nodeNamespace } = rules.lab;
		const route = family === "ipv4" ? "10.96.0.0/16" : "fd96::/64";
		const gateway = family === "ipv4" ? outside.ipv4 : outside.ipv6;
		await nodeNamespace.ip("route", "add", route, "via", gateway);
		try {
			expect(await udp(client, { localPort: 45_001, ...quick })).not.toBe("udp");

			await apply(dns);

			expect(await udp(client, { localPort: 45_001 })).toBe("udp");
			expect(keeper.facts().deletedFlowGroups).toBeGreaterThan(0);
		} finally {
			await nodeNamespace.ip("route", "del", route);
			await rules.iptables("-t nat -D POSTROUTING -p icmp -j RETURN", family);
		}
	});

	it("move a UDP client to the new proxy port after a restart (case 4b)", async () => {
		await apply(dns);
		expect(await udp(client, { localPort: 45_002 })).toBe("udp");
		const moved = await node.serveUdp({
			mode: "name",
			name: "new",
			port: 21_009,
			address: nodeAddress,
		});
		const successor = await rules.keeper();

		expect(await successor.previous(never)).toMatchObject([
			{ key: dns.key, address: dnsAddress, proxyPort: PROXY_PORT, listenAddress: nodeAddress },
		]);
		await successor.apply(
			wantedRules([{ ...dns, proxyPort: aBinding({ proxyPort: moved.port }).proxyPort }]),
			never,
		);
		await successor.cleanFlows(never);

		expect(await udp(client, { localPort: 45_002 })).toBe("new");
		await moved.close();
	});

	it("go for new connections at captureOff and leave the established ones alone", async () => {
		const echo: RemoteServer = await node.serveTcp({
			mode: "echo",
			name: "echo",
			port: 21_003,
			address: any,
		});
		await rules.iptables("-P INPUT DROP", family);
		if (family === "ipv6") await rules.iptables("-A INPUT -p ipv6-icmp -j ACCEPT", family);
		try {
			await apply({ ...web, proxyPort: aBinding({ proxyPort: echo.port }).proxyPort });
			const connection = await client.connect({ address: webAddress, port: 80 });

			await keeper.captureOff(never);

			expect(await tcp(client, quick)).not.toBe("tcp");
			await connection.write("still here");
			expect((await connection.read(10)).bytes).toBe(10);
			await connection.finish("destroy");
		} finally {
			if (family === "ipv6") await rules.iptables("-D INPUT -p ipv6-icmp -j ACCEPT", family);
			await rules.iptables("-P INPUT ACCEPT", family);
			await echo.close();
		}
	});

	it("never fail a client while they are applied again and again", async () => {
		await apply(web);
		let isDone = false;
		const connecting = (async () => {
			const errors: string[] = [];
			let count = 0;
			while (!isDone && count < 2_000) {
				const results = await client.tcp({ address: webAddress, port: 80, count: 20 });
				count += results.length;
				errors.push(...results.flatMap(({ error }) => (error === undefined ? [] : [error])));
			}
			return { count, errors };
		})();
		for (let round = 0; round < 20; round += 1) {
			const other = aBinding({
				service: `s${round}`,
				addresses: [dnsAddress],
				proxyPort: 22_000 + round,
			});
			await apply(web, other);
		}
		isDone = true;

		const { count, errors } = await connecting;
		expect(errors).toEqual([]);
		expect(count).toBeGreaterThan(19);
	});

	// A second subnet is a matter of IPv4: IPv6 chooses source addresses by other rules, and needs ICMP
	// let in to find its neighbours.
	if (family !== "ipv4") return;

	it("let ICMP errors about redirected flows in on a host that drops them", async () => {
		const { lab } = rules;
		const received = async () => {
			const { stdout } = await lab.node.exec("cat", ["/proc/net/snmp"]);
			const [names = "", values = ""] = stdout
				.split("\n")
				.filter((line) => line.startsWith("Icmp:"));
			return Number(values.split(" ")[names.split(" ").indexOf("InDestUnreachs")]);
		};
		await apply(dns);
		await rules.iptables("-P INPUT DROP");
		try {
			const before = await received();
			// The client is gone when the answer comes, if it comes late enough: its kernel then says
			// "port unreachable".
			const send = `echo x > /dev/udp/${dnsAddress}/53`;
			const afterOneMore = async () => {
				await lab.client.exec("bash", ["-c", send]);
				return await received();
			};
			await expect.poll(afterOneMore, { timeout: 10_000 }).toBeGreaterThan(before);
		} finally {
			await rules.iptables("-P INPUT ACCEPT");
		}
	});

	it("answer from the asked address with two subnets on one link (case 6a, case 6b)", async () => {
		const { lab } = rules;
		await lab.node.ip("addr", "add", "192.168.77.1/24", "dev", "to-client");
		await lab.client.ip("addr", "add", "192.168.77.2/24", "dev", "eth0");
		await lab.client.ip(
			"route",
			"add",
			"10.96.0.0/16",
			"via",
			"192.168.77.1",
			"src",
			"192.168.77.2",
		);
		try {
			await apply(web, dns);

			const [answer] = await client.udp({ address: dnsAddress, port: 53 });
			expect(answer).toMatchObject({ answer: "udp", from: `${dnsAddress}:53` });
			expect(await tcp(client)).toBe("tcp");
			expect(await udp(node)).toBe("udp");
		} finally {
			await lab.client.ip("route", "del", "10.96.0.0/16");
			await lab.client.ip("addr", "del", "192.168.77.2/24", "dev", "eth0");
			await lab.node.ip("addr", "del", "192.168.77.1/24", "dev", "to-client");
		}
	});
}

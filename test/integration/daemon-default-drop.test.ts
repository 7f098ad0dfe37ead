import { afterEach, beforeEach, describe, expect, test as it } from "vitest";
import {
	ask,
	askTcp,
	askUdp,
	createKindLab,
	everyKind,
	everyKindService,
	FAMILIES,
	type Family,
	NODE,
	NODE_PORT,
} from "../kit/address-kinds.ts";
import { labProblem } from "../kit/lab.ts";
import { eventually, type ServiceLab, savedRules } from "../kit/service-lab.ts";

const SERVED = [expect.stringMatching(/^ep\d$/), expect.stringMatching(/^ep\d$/)];
const HEALTH_CHECK_PORT = 31_797;

/** What an administrator lets in; over IPv6 a host that drops neighbour discovery has no link. */
const FIREWALL: readonly (readonly [command: string, ...rule: string[]])[] = [
	...["iptables", "ip6tables"].flatMap((command): [string, ...string[]][] => [
		[command, "-A", "INPUT", "-i", "lo", "-j", "ACCEPT"],
		[command, "-A", "INPUT", "-m", "conntrack", "--ctstate", "ESTABLISHED", "-j", "ACCEPT"],
		[command, "-P", "INPUT", "DROP"],
	]),
	["ip6tables", "-I", "INPUT", "-p", "ipv6-icmp", "-j", "ACCEPT"],
];

describe.skipIf(labProblem() !== undefined)("a node that drops what it does not know", () => {
	let services: ServiceLab;

	beforeEach(async () => {
		services = await createKindLab();
		await services.write(
			"a.json",
			everyKindService({
				name: "a",
				number: 10,
				spec: { externalTrafficPolicy: "Local", healthCheckNodePort: HEALTH_CHECK_PORT },
				endpoints: [[1, "node1"]],
			}),
		);
	});
	afterEach(async () => {
		await services.close();
	});

	const raiseFirewall = async () => {
		for (const [command, ...rule] of FIREWALL) await services.lab.node.exec(command, rule);
	};
	/** What the client gets at proxy ports of a protocol, around the Service. */
	const askProxies = async (family: Family, protocol: "tcp" | "udp") => {
		const rules = await savedRules(services.lab.node);
		const targets = rules
			.filter((rule) => rule.includes(`/${protocol}/${family}`))
			.map((rule) => /--to-ports (\d+)|--to-destination \[?([^\]]+)\]?:(\d+)/.exec(rule))
			.filter((found) => found !== null)
			// Listeners of TCP are on all addresses, those of UDP on one.
			.map(([, port, address = NODE[family][0], leadTo]) => [address, Number(port ?? leadTo)]);
		const asked = new Map(targets.map((target) => [target.join(" "), target as [string, number]]));
		expect(asked.size).toBeGreaterThan(0);
		const askOne = protocol === "tcp" ? askTcp : askUdp;
		const answers = await Promise.all(
			[...asked.values()].map(
				async ([address, port]) => await askOne(services.client, address, port),
			),
		);
		return [...new Set(answers)];
	};
	const expectNoProxies = async (family: Family) => {
		const answers = [askProxies(family, "tcp"), askProxies(family, "udp")];
		expect(await Promise.all(answers)).toEqual([["TIMEOUT"], ["TIMEOUT"]]);
	};
	const healthCheck = async (family: Family): Promise<unknown> => {
		const [address] = NODE[family];
		const host = family === "ipv6" ? `[${address}]` : address;
		const url = `http://${host}:${HEALTH_CHECK_PORT}/healthz`;
		return await services.client.get(url, 1_000).then(
			({ status }) => status,
			() => "none",
		);
	};

	it("lets in every kind of address and health checks, and nothing at proxy ports (case 10a, case 10b, case 33c)", async () => {
		await raiseFirewall();
		const before = await savedRules(services.lab.node);
		const daemon = await services.start();
		for (const family of FAMILIES) {
			for (const [kind, address, port] of everyKind(10, family)) {
				await eventually(async () =>
					expect([kind, await ask(services.client, address, port)]).toEqual([kind, SERVED]),
				);
			}
			await eventually(async () => expect(await healthCheck(family)).toBe(200));
			await expectNoProxies(family);
		}
		await daemon.stop();
		expect(await savedRules(services.lab.node)).toEqual(before);
		for (const family of FAMILIES) expect(await healthCheck(family)).toBe("none");
	});

	it("closes what was open for a Service that goes (case 10c)", async () => {
		await raiseFirewall();
		const server = await services.lab.node.agent();
		const daemon = await services.start();
		for (const family of FAMILIES) {
			await eventually(async () => expect(await healthCheck(family)).toBe(200));
		}
		await services.write("a.json", []);
		await eventually(async () => {
			expect(await daemon.metric("kube_userproxy_listeners")).toBe(0);
			expect((await savedRules(services.lab.node)).join("\n")).not.toContain("shop/a");
		});
		await server.serveTcp({ mode: "greet", name: "host", port: HEALTH_CHECK_PORT });
		await server.serveTcp({ mode: "greet", name: "host", port: NODE_PORT });
		const asked = FAMILIES.flatMap((family) =>
			[HEALTH_CHECK_PORT, NODE_PORT].map(
				async (port) => await askTcp(services.client, NODE[family][0], port),
			),
		);
		expect(new Set(await Promise.all(asked))).toEqual(new Set(["TIMEOUT"]));
	});

	it("nothing comes in at proxy ports on a node without a firewall either (case 33c)", async () => {
		await services.start();
		for (const family of FAMILIES) {
			const [, address, port] = everyKind(10, family)[0] ?? ["", "", 0];
			await eventually(async () =>
				expect(await ask(services.client, address, port)).toEqual(SERVED),
			);
			await expectNoProxies(family);
		}
	});
});

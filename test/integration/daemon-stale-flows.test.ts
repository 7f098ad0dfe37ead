import { afterEach, beforeEach, describe, expect, test as it } from "vitest";
import {
	createKindLab,
	everyKind,
	everyKindService,
	FAMILIES,
	type Family,
	kindService,
	NODE,
	NODE_PORT,
} from "../kit/address-kinds.ts";
import type { Agent } from "../kit/agent.ts";
import { labProblem } from "../kit/lab.ts";
import { RELAY_ENGINES } from "../kit/relay-engines.ts";
import { clusterIp, eventually, type ServiceLab, savedRules } from "../kit/service-lab.ts";

/** Long enough for conntrack to be asked under load, and less than its own 30 s. */
const SOON_MS = 25_000;
const FIRST_CLIENT_PORT = 21_001;
const ANY_ENDPOINT = /^ep\d$/;

type Target = readonly [kind: string, address: string, port: number];

/** Each kind and family with a source port of its own. */
const TARGETS = FAMILIES.flatMap((family) => everyKind(10, family)).map(
	(target, index) => [target, FIRST_CLIENT_PORT + index] as const,
);

describe.skipIf(labProblem() !== undefined)("a UDP client that keeps its source port", () => {
	let services: ServiceLab;

	beforeEach(async () => {
		services = await createKindLab();
		// Conntrack does nothing in a namespace until a rule there needs it.
		for (const command of ["iptables", "ip6tables"]) {
			const rule = ["-A", "INPUT", "-m", "conntrack", "--ctstate", "INVALID", "-j", "ACCEPT"];
			await services.lab.node.exec(command, rule);
		}
	});
	afterEach(async () => {
		await services.close();
	});

	/** One datagram; the same port is the same flow for conntrack. */
	const say = async (
		from: Agent,
		[, address, port]: Target,
		localPort: number,
		timeoutMs: number = 300,
	) => {
		const [result] = await from.udp({ address, port, localPort, timeoutMs });
		return result?.error ?? result?.answer;
	};
	const sayToAll = async () =>
		await Promise.all(
			TARGETS.map(async ([target, localPort]) => [
				target[0],
				await say(services.client, target, localPort),
			]),
		);
	const all = (answer: unknown) => TARGETS.map(([[kind]]) => [kind, answer]);
	const expectAll = async (answer: unknown) =>
		await eventually(async () => expect(await sayToAll()).toEqual(all(answer)), SOON_MS);
	/** "udp 17 29 src=… … id=4711" of what conntrack has from that source port. */
	const entries = async (family: Family, localPort: number): Promise<readonly string[]> => {
		const args = ["-L", "-f", family, "-p", "udp", "-o", "id", "--orig-port-src", `${localPort}`];
		const { stdout } = await services.lab.node.exec("conntrack", args);
		return stdout.split("\n").filter((line) => line !== "");
	};
	const idOf = (entry: string | undefined) => / id=(\d+)/.exec(entry ?? "")?.[1];

	it("and was talking before the Service existed reaches it at every kind of address (kubernetes#48370) (case 2a, case 2b, case 2c, case 2d, classic 9.1.29)", async () => {
		await services.start();
		expect((await sayToAll()).every(([, got]) => !ANY_ENDPOINT.test(`${got}`))).toBe(true);
		for (const [index, [[kind], localPort]] of TARGETS.entries()) {
			const family = index < TARGETS.length / 2 ? "ipv4" : "ipv6";
			expect([kind, await entries(family, localPort)]).toEqual([
				kind,
				[expect.stringContaining("UNREPLIED")],
			]);
		}
		await services.write("a.json", everyKindService({ name: "a", number: 10 }));
		await expectAll(expect.stringMatching(ANY_ENDPOINT));
	});

	it("reaches it again after a crash, from which other proxy ports and endpoints come (kubernetes#125467) (case 4b, case 22e, classic 9.1.29)", async () => {
		const { node } = services.lab;
		await services.write("a.json", everyKindService({ name: "a", number: 10, endpoints: [[1]] }));
		const first = await services.start();
		await expectAll("ep1");
		const udpRules = (await savedRules(node)).filter((rule) => rule.includes("-p udp"));
		const ports = udpRules.map((rule) => /--to-destination \S+:(\d+)/.exec(rule)?.[1]);
		const proxyPorts = new Set(ports.filter((port) => port !== undefined).map(Number));
		await first.kill9();
		// Somebody else has the ports by now: the successor cannot take them again.
		const squatter = await node.agent();
		for (const port of proxyPorts) {
			await squatter.serveUdp({ mode: "sink", name: "squatter", port, address: "::" });
		}
		await services.write("a.json", everyKindService({ name: "a", number: 10, endpoints: [[2]] }));
		expect(await sayToAll()).toEqual(all("TIMEOUT"));
		await services.start();
		await expectAll("ep2");
	});

	it("reaches it again after a restart during which it went on talking (case 4a)", async () => {
		await services.write("a.json", everyKindService({ name: "a", number: 10, endpoints: [[1]] }));
		const first = await services.start();
		await expectAll("ep1");
		expect(await first.stop()).toEqual({ code: 0, signal: null });
		// No rule leads anywhere, and conntrack remembers that.
		expect((await sayToAll()).every(([, got]) => !ANY_ENDPOINT.test(`${got}`))).toBe(true);
		await services.start();
		await expectAll("ep1");
	});

	it.each(RELAY_ENGINES)(
		"reaches it again after the node has lost the address that its flow was led to (%s)",
		async (engine) => {
			const { node } = services.lab;
			// What the node is known by without a cluster: the lowest address on its way out.
			const known = { ipv4: "10.0.9.1", ipv6: "fd10::9" };
			const all = [`${known.ipv4}/32`, `${known.ipv6}/128`];
			await node.ip("addr", "add", `${known.ipv4}/32`, "dev", "to-outside");
			await node.ip("addr", "add", `${known.ipv6}/128`, "dev", "to-outside", "nodad");
			await services.write("a.json", everyKindService({ name: "a", number: 10, endpoints: [[1]] }));
			await services.start([`--relay=${engine}`, "--iptables-sync-period=1s"]);
			await expectAll("ep1");
			for (const [index, [, localPort]] of TARGETS.entries()) {
				const family = index < TARGETS.length / 2 ? "ipv4" : "ipv6";
				const [entry = ""] = await entries(family, localPort);
				expect(/src=.* src=(\S+)/.exec(entry)?.[1]).toBe(known[family]);
			}
			for (const each of all) await node.ip("addr", "del", each, "dev", "to-outside");
			await expectAll("ep1");
		},
	);

	it("of a Service is not disturbed when a node port of the same number goes (kubernetes#49881) (case 2g)", async () => {
		const ports = (port: number, nodePort?: number) => [
			{ name: "dns", protocol: "UDP", port, nodePort },
		];
		const withNodePort = { name: "a", number: 10, ports: ports(80, NODE_PORT) };
		const sameNumber = kindService({ name: "b", number: 11, ports: ports(NODE_PORT) });
		await services.write("b.json", sameNumber);
		await services.write("a.json", kindService(withNodePort));
		await services.start();
		for (const family of FAMILIES) {
			const onNode: Target = ["node port", NODE[family][0], NODE_PORT];
			const other: Target = ["ClusterIP", clusterIp(11, family), NODE_PORT];
			const [nodeClient, otherClient] = [FIRST_CLIENT_PORT, FIRST_CLIENT_PORT + 1];
			const bothAnswer = async () => {
				expect(await say(services.client, onNode, nodeClient)).toMatch(ANY_ENDPOINT);
				expect(await say(services.client, other, otherClient)).toMatch(ANY_ENDPOINT);
			};
			await eventually(bothAnswer);
			const before = (await entries(family, otherClient)).map(idOf);
			expect(before).toHaveLength(1);
			await services.write("a.json", kindService({ ...withNodePort, ports: ports(80) }));
			// Its own flows are freed, which is when the other's might have been.
			await eventually(
				async () =>
					expect(await say(services.client, onNode, nodeClient)).not.toMatch(ANY_ENDPOINT),
				SOON_MS,
			);
			// An answer that is late is one.
			expect(await say(services.client, other, otherClient, 5_000)).toMatch(ANY_ENDPOINT);
			expect((await entries(family, otherClient)).map(idOf)).toEqual(before);
			await services.write("a.json", kindService(withNodePort));
		}
	});

	it("moves to this node's endpoints when its Service's policy becomes Local, if it is outside", async () => {
		const { lab } = services;
		const [endpoint] = lab.endpoints;
		if (endpoint === undefined) throw new TypeError("the lab has no endpoint");
		const pod = await endpoint.agent();
		const withPolicy = (externalTrafficPolicy: string) =>
			everyKindService({
				name: "a",
				number: 10,
				spec: { externalTrafficPolicy },
				endpoints: [
					[1, "node1"],
					[2, "node2"],
				],
			});
		await services.write("a.json", withPolicy("Cluster"));
		await services.start(["--cluster-cidr=10.2.0.0/16,fd10:2::/32"]);
		/** A source port whose flow has come to the endpoint of the other node. */
		const portTo2 = async (from: Agent, target: Target, first: number) =>
			await eventually(async () => {
				for (let port = first; port < first + 20; port += 1) {
					if ((await say(from, target, port)) === "ep2") return port;
				}
				throw new Error("every flow came to the same endpoint");
			});
		const flows: { from: Agent; target: Target; port: number; moves: boolean }[] = [];
		for (const [index, [target]] of TARGETS.entries()) {
			const first = FIRST_CLIENT_PORT + index * 20;
			const moves = target[0] !== "ClusterIP";
			flows.push({
				from: services.client,
				target,
				port: await portTo2(services.client, target, first),
				moves,
			});
			flows.push({ from: pod, target, port: await portTo2(pod, target, first), moves: false });
		}
		await services.write("a.json", withPolicy("Local"));
		const answers = async () =>
			await Promise.all(
				flows.map(async ({ from, target, port }) => [target[0], await say(from, target, port)]),
			);
		await eventually(
			async () =>
				expect(await answers()).toEqual(
					flows.map(({ target, moves }) => [target[0], moves ? "ep1" : "ep2"]),
				),
			SOON_MS,
		);
	});
});

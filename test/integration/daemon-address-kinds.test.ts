import { afterAll, beforeAll, describe, expect, test as it } from "vitest";
import { formatSocketAddress } from "../../src/services/address.ts";
import {
	ask as askFrom,
	askTcp,
	BALANCER,
	createKindLab,
	DROPPED,
	EXTERNAL,
	FAMILIES,
	type Family,
	ingressOf,
	type KindServiceFields,
	kindService,
	NODE,
	NODE_PORT,
	REFUSED,
} from "../kit/address-kinds.ts";
import type { Agent } from "../kit/agent.ts";
import type { DaemonProcess } from "../kit/daemon-process.ts";
import { labProblem } from "../kit/lab.ts";
import { clusterIp, eventually, type ServiceLab, savedRules } from "../kit/service-lab.ts";
import { expectState, stateMarker } from "../kit/state-marker.ts";

const PROXIED: Record<Family, string> = { ipv4: "198.51.100.8", ipv6: "fd30::8" };
const CLIENTS_RANGE: Record<Family, string> = { ipv4: "10.1.0.0/24", ipv6: "fd10:1::/64" };

describe.skipIf(labProblem() !== undefined)("the kinds of addresses", () => {
	let services: ServiceLab;
	let daemon: DaemonProcess;
	let places: Record<"client" | "outside" | "node" | "endpoint", Agent>;

	beforeAll(async () => {
		services = await createKindLab();
		const { lab } = services;
		const [endpoint] = lab.endpoints;
		if (endpoint === undefined) throw new TypeError("the lab has no endpoint");
		places = {
			client: services.client,
			outside: await lab.outside.agent(),
			node: await lab.node.agent(),
			endpoint: await endpoint.agent(),
		};
		// Else the node has no way to addresses that it redirects, and its own packets fail before.
		await lab.node.exec("ip", ["route", "replace", "default", "via", "10.1.0.2"]);
		await lab.node.exec("ip", ["-6", "route", "replace", "default", "via", "fd10:1::2"]);
		await services.write("a.json", []);
		daemon = await services.start(["--hostname-override=node1", "--cluster-cidr=10.2.0.0/16"]);
	});
	afterAll(async () => {
		await services.close();
	});

	/** What each place gets there over TCP and over UDP. */
	const ask = async (place: keyof typeof places, address: string, port = 80) =>
		await askFrom(places[place], address, port);
	const SERVED = [expect.stringMatching(/^ep\d$/), expect.stringMatching(/^ep\d$/)];
	let round = 0;
	/** The Service that a test is about, alone, once the daemon has taken it over. */
	const serve = async (fields: Omit<KindServiceFields, "name" | "number">) => {
		round += 1;
		const service = kindService({ name: "a", number: 10, ...fields });
		await services.write("a.json", [...service, ...stateMarker(round)]);
		await eventually(() => expectState(services.client, round));
	};

	it.each(FAMILIES)(
		"each is reached from everywhere (%s) (case 33d, classic 9.1.27, 9.8.2)",
		async (family) => {
			await serve({
				spec: { externalIPs: Object.values(EXTERNAL) },
				status: ingressOf({ ip: BALANCER[family] }, { ip: PROXIED[family], ipMode: "Proxy" }),
			});
			await eventually(async () => expect(await ask("client", BALANCER[family])).toEqual(SERVED));
			const addresses = [clusterIp(10, family), EXTERNAL[family], BALANCER[family]];
			for (const place of ["client", "outside", "node", "endpoint"] as const) {
				for (const address of addresses) {
					expect([place, address, await ask(place, address)]).toEqual([place, address, SERVED]);
				}
				for (const address of NODE[family]) {
					const got = await ask(place, address, NODE_PORT);
					expect([place, address, got]).toEqual([place, address, SERVED]);
				}
			}
			const loopback = family === "ipv4" ? "127.0.0.1" : "::1";
			expect(await ask("node", loopback, NODE_PORT)).toEqual(SERVED);
			expect(await ask("client", PROXIED[family])).not.toEqual(SERVED);
		},
	);

	it.each(FAMILIES)(
		"each refuses at once while there is no endpoint (%s) (case 34a, case 34d, classic 9.1.26)",
		async (family) => {
			await serve({
				spec: { externalIPs: Object.values(EXTERNAL), externalTrafficPolicy: "Local" },
				status: ingressOf({ ip: BALANCER[family] }),
				endpoints: [],
			});
			await eventually(async () => expect(await ask("client", BALANCER[family])).toEqual(REFUSED));
			for (const place of ["client", "node", "endpoint"] as const) {
				for (const address of [clusterIp(10, family), EXTERNAL[family], BALANCER[family]]) {
					expect([place, address, await ask(place, address)]).toEqual([place, address, REFUSED]);
				}
				const [own] = NODE[family];
				expect([place, await ask(place, own, NODE_PORT)]).toEqual([place, REFUSED]);
			}
		},
	);

	it.each(FAMILIES)(
		"a UDP answer comes from the address that was asked, whichever of the node's it was (%s)",
		async (family) => {
			await serve({});
			const vip = clusterIp(10, family);
			for (const address of [...NODE[family], vip]) {
				const port = address === vip ? 80 : NODE_PORT;
				const [answer] = await places.client.udp({ address, port, timeoutMs: 5_000 });
				expect(answer?.from).toBe(formatSocketAddress(address, port));
			}
		},
	);

	it("externalTrafficPolicy Local keeps outside traffic on the node, and this node's own not", async () => {
		await serve({
			spec: { externalTrafficPolicy: "Local" },
			status: ingressOf({ ip: BALANCER.ipv4 }),
			endpoints: [
				[1, "node1"],
				[2, "node2"],
			],
		});
		await eventually(async () => {
			for (let turn = 0; turn < 4; turn += 1) {
				expect(await ask("client", BALANCER.ipv4)).toEqual(["ep1", "ep1"]);
			}
		});
		const answers = async (place: keyof typeof places, address: string, port = 80) => {
			const got = [];
			for (let turn = 0; turn < 4; turn += 1) got.push(...(await ask(place, address, port)));
			return new Set(got);
		};
		expect(await answers("client", "10.1.0.1", NODE_PORT)).toEqual(new Set(["ep1"]));
		const both = new Set(["ep1", "ep2"]);
		expect(await answers("client", clusterIp(10))).toEqual(both);
		expect(await answers("node", BALANCER.ipv4)).toEqual(both);
		// The endpoints' network is the cluster's, as --cluster-cidr says.
		expect(await answers("endpoint", BALANCER.ipv4)).toEqual(both);
		expect(await answers("endpoint", "10.1.0.1", NODE_PORT)).toEqual(both);
	});

	it("externalTrafficPolicy Local drops outside traffic where only other nodes have endpoints", async () => {
		await serve({
			spec: { externalTrafficPolicy: "Local" },
			status: ingressOf({ ip: BALANCER.ipv4 }),
			endpoints: [[2, "node2"]],
		});
		await eventually(async () => expect(await ask("client", BALANCER.ipv4)).toEqual(DROPPED));
		expect(await ask("client", "10.1.0.1", NODE_PORT)).toEqual(DROPPED);
		expect(await ask("node", BALANCER.ipv4)).toEqual(["ep2", "ep2"]);
		expect(await ask("endpoint", "10.1.0.1", NODE_PORT)).toEqual(["ep2", "ep2"]);
		expect(await ask("client", clusterIp(10))).toEqual(["ep2", "ep2"]);
	});

	it("internalTrafficPolicy Local keeps ClusterIP traffic on the node, or drops it", async () => {
		const spec = { internalTrafficPolicy: "Local" };
		await serve({
			spec,
			endpoints: [
				[1, "node2"],
				[3, "node1"],
			],
		});
		await eventually(async () =>
			expect(await ask("client", clusterIp(10))).toEqual(["ep3", "ep3"]),
		);
		for (const place of ["client", "node", "endpoint"] as const) {
			expect(await ask(place, clusterIp(10))).toEqual(["ep3", "ep3"]);
		}
		await serve({ spec, endpoints: [[1, "node2"]] });
		await eventually(async () => expect(await ask("client", clusterIp(10))).toEqual(DROPPED));
		expect(await ask("node", clusterIp(10))).toEqual(DROPPED);
		expect(await ask("client", "10.1.0.1", NODE_PORT)).toEqual(["ep1", "ep1"]);
		await serve({ spec, endpoints: [] });
		await eventually(async () => expect(await ask("client", clusterIp(10))).toEqual(REFUSED));
	});

	it.each(FAMILIES)(
		"loadBalancerSourceRanges let in by the load balancer whom they name (%s)",
		async (family) => {
			await serve({
				spec: { loadBalancerSourceRanges: Object.values(CLIENTS_RANGE) },
				status: ingressOf({ ip: BALANCER.ipv4 }, { ip: BALANCER.ipv6 }),
			});
			await eventually(async () => expect(await ask("outside", BALANCER[family])).toEqual(DROPPED));
			expect(await ask("client", BALANCER[family])).toEqual(SERVED);
			expect(await ask("endpoint", BALANCER[family])).toEqual(DROPPED);
			const [, ownOutside] = NODE[family];
			// Every other address is for all.
			expect(await ask("outside", clusterIp(10, family))).toEqual(SERVED);
			expect(await ask("outside", ownOutside, NODE_PORT)).toEqual(SERVED);
		},
	);

	it("a load balancer asks at healthCheckNodePort", async () => {
		const spec = { externalTrafficPolicy: "Local", healthCheckNodePort: 31_797 };
		await serve({
			spec,
			endpoints: [
				[1, "node1"],
				[2, "node1"],
				[3, "node2"],
			],
		});
		const answer = async () => await daemon.get("/healthz", 31_797);
		await eventually(async () => {
			const { status, body } = await answer();
			expect(status).toBe(200);
			expect(JSON.parse(body)).toMatchObject({
				service: { namespace: "shop", name: "a" },
				localEndpoints: 2,
				serviceProxyHealthy: true,
			});
		});
		await serve({ spec, endpoints: [[3, "node2"]] });
		await eventually(async () => expect((await answer()).status).toBe(503));
		await serve({});
		await eventually(async () => await expect(answer()).rejects.toThrow());
	});

	it("a node port that a process of the node has is not taken, and is once it is free (classic 9.1.28)", async () => {
		const taken = await places.node.serveTcp({ mode: "greet", port: 30_090, name: "host" });
		await serve({ ports: [{ name: "web", protocol: "TCP", port: 80, nodePort: 30_090 }] });
		await eventually(async () =>
			expect(await askTcp(places.client, clusterIp(10), 80)).toMatch(/^ep/),
		);
		expect(await askTcp(places.client, "10.1.0.1", 30_090)).toBe("host");
		await daemon.waitForLog((line) =>
			JSON.stringify(line).includes("node port 30090/tcp is in use"),
		);
		await taken.close();
		await eventually(
			async () => expect(await askTcp(places.client, "10.1.0.1", 30_090)).toMatch(/^ep/),
			30_000,
		);
	});

	it("all is gone once the Services are (classic 9.8.2)", async () => {
		await services.write("a.json", []);
		await eventually(async () => {
			const rules = await savedRules(services.lab.node);
			expect(rules.filter((rule) => /-j (DNAT|REDIRECT|DROP|REJECT)/.test(rule))).toEqual([]);
		});
		expect(await daemon.stop("SIGTERM")).toEqual({ code: 0, signal: null });
		expect(await savedRules(services.lab.node)).toEqual([]);
	});
});

import { copyFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test as it } from "vitest";
import { askTcp, askUdp, FAMILIES, NODE } from "../kit/address-kinds.ts";
import type { Agent } from "../kit/agent.ts";
import {
	DUMPS,
	DUMPS_FOLDER,
	type DumpedService,
	type DumpedSlice,
	type ExpectedPort,
	expectedOf,
	familyOf,
	readDumps,
	roleOf,
} from "../kit/dumped-services.ts";
import { labProblem } from "../kit/lab.ts";
import type { LabNamespace } from "../kit/lab-namespace.ts";
import { createServiceLab, eventually, type ServiceLab } from "../kit/service-lab.ts";

describe.skipIf(labProblem() !== undefined)("Services that a real control plane wrote", () => {
	let services: ServiceLab;
	let dumped: readonly DumpedService[];
	let slices: readonly DumpedSlice[];
	let places: Readonly<Record<string, Agent>>;

	const done = new Set<string>();
	const isFirst = (what: string): boolean => !done.has(what) && done.add(what).has(what);
	const addAddress = async (host: LabNamespace, address: string) => {
		const isIpv6 = familyOf(address) === "ipv6";
		const range = `${address}/${isIpv6 ? 128 : 32}`;
		// Without "nodad" an IPv6 address is there only when the kernel's worker has looked at it.
		await host.ip("addr", "add", range, "dev", "lo", ...(isIpv6 ? ["nodad"] : []));
		const via = isIpv6 ? host.ipv6 : host.ipv4;
		await services.lab.node.ip("route", "add", range, "via", via);
	};
	const addServers = async (
		host: LabNamespace,
		address: string,
		ports: DumpedSlice["ports"] = [],
	) => {
		const agent = await host.agent();
		const name = host.role;
		for (const { port, protocol } of ports) {
			if (!isFirst(`${address} ${protocol} ${port}`)) continue;
			// On the very address: a UDP answer would else come from the host's main one.
			if (protocol === "TCP") await agent.serveTcp({ mode: "greet", name, port, address });
			else await agent.serveUdp({ mode: "name", name, port, address });
		}
	};
	/** Gives the endpoints' addresses to hosts of the lab, and a server to each port. */
	const bringUpEndpoints = async (all: readonly DumpedSlice[]) => {
		const endpoints = all.flatMap((slice) =>
			(slice.endpoints ?? []).map((endpoint) => ({ ...endpoint, ports: slice.ports ?? [] })),
		);
		for (const { addresses, nodeName, ports } of endpoints) {
			const host = services.lab.endpoints.find(({ role }) => role === roleOf(nodeName));
			if (host === undefined) throw new TypeError(`no host for ${nodeName}`);
			for (const address of addresses) {
				if (isFirst(address)) await addAddress(host, address);
				await addServers(host, address, ports);
			}
		}
	};

	beforeAll(async () => {
		({ services: dumped, slices } = await readDumps());
		services = await createServiceLab();
		const { lab } = services;
		await lab.node.sysctl({ "net.ipv4.icmp_ratelimit": "0", "net.ipv6.icmp.ratelimit": "0" });
		await bringUpEndpoints(slices);
		const [endpoint] = lab.endpoints;
		if (endpoint === undefined) throw new TypeError("the lab has no endpoint");
		places = {
			client: services.client,
			node: await lab.node.agent(),
			endpoint: await endpoint.agent(),
		};
		for (const file of DUMPS) await copyFile(join(DUMPS_FOLDER, file), join(services.folder, file));
		await services.start();
	});
	afterAll(async () => {
		await services.close();
	});

	/** From every place at every address; an endpoint by its kind, since any may answer. */
	const expectAsPromised = async ({ name, protocol, places: asked, endpoints }: ExpectedPort) => {
		const askOne = protocol === "TCP" ? askTcp : askUdp;
		const answers = Object.entries(places).flatMap(([place, from]) =>
			asked.map(async ([address, port]) => {
				const answer = (await askOne(from, address, port)) ?? "";
				return [name, place, address, port, endpoints.includes(answer) ? "served" : answer];
			}),
		);
		const wanted = endpoints.length > 0 ? "served" : "ECONNREFUSED";
		expect(await Promise.all(answers)).toEqual(
			Object.keys(places).flatMap((place) =>
				asked.map(([address, port]) => [name, place, address, port, wanted]),
			),
		);
	};

	it("are all reachable from client, node and endpoint, or refuse without endpoints", async () => {
		const all = dumped.flatMap((service) => expectedOf(service, slices));
		expect(new Set(all.map(({ name }) => name.replace(/:.*/, ""))).size).toBe(21);
		expect(all.filter(({ endpoints }) => endpoints.length === 0).map(({ name }) => name)).toEqual([
			"shop/dual:web",
			"shop/no-selector:",
		]);
		for (const expected of all) await eventually(async () => await expectAsPromised(expected));
	});

	it("keep to the policy, source ranges and health check port of a load balancer", async () => {
		const service = dumped.find(({ metadata }) => metadata.name === "local-lb");
		expect(service?.spec).toMatchObject({
			externalTrafficPolicy: "Local",
			healthCheckNodePort: 31_797,
		});
		const { lab, client } = services;
		await lab.client.ip("addr", "add", "203.0.113.200/32", "dev", "lo");
		await lab.node.ip("route", "add", "203.0.113.200/32", "via", "10.1.0.2");
		const ask = async (localAddress?: string) =>
			await client.tcp({
				address: "198.51.100.7",
				port: 80,
				timeoutMs: 1_000,
				...(localAddress === undefined ? {} : { localAddress }),
			});
		for (let turn = 0; turn < 4; turn += 1) {
			expect((await ask("203.0.113.200"))[0]?.answer).toBe("ep1");
			expect(await askTcp(client, NODE.ipv4[0], 32_423)).toBe("ep1");
		}
		expect((await ask())[0]?.error).toBe("TIMEOUT");
		const health = await client.get(`http://${NODE.ipv4[0]}:31797/healthz`);
		expect(JSON.parse(health.body)).toMatchObject({ localEndpoints: 1 });
	});

	it("with two families are reachable over both once both have endpoints", async () => {
		const name = "dual";
		const filled = slices
			.filter((slice) => slice.metadata.labels?.["kubernetes.io/service-name"] === name)
			.filter(({ addressType }) => addressType === "IPv6")
			.map((slice) => ({
				...slice,
				apiVersion: "discovery.k8s.io/v1",
				metadata: { ...slice.metadata, name: "dual-filled" },
				ports: [{ name: "web", protocol: "TCP" as const, port: 8080 }],
				endpoints: ["node1", "node2", "node3"].map((nodeName, index) => ({
					addresses: [`fd00:244::${193 + index}`],
					conditions: { ready: true },
					nodeName,
				})),
			}));
		await bringUpEndpoints(filled);
		await services.write("filled.json", filled);
		const service = dumped.find(({ metadata }) => metadata.name === name);
		if (service === undefined) throw new TypeError("the dumps have no Service with two families");
		const both = expectedOf(service, [...slices, ...filled]);
		expect(both.map(({ family }) => family)).toEqual(FAMILIES);
		for (const expected of both) {
			expect(expected.endpoints.length).toBe(3);
			await eventually(async () => await expectAsPromised(expected));
		}
	});
});

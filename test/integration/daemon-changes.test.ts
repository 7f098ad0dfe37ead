import { rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test as it } from "vitest";
import { tally } from "../kit/agent.ts";
import { labProblem } from "../kit/lab.ts";
import {
	clusterIp,
	createServiceLab,
	eventually,
	labService,
	type ServiceLab,
	savedRules,
} from "../kit/service-lab.ts";

describe.skipIf(labProblem() !== undefined)("the daemon, when things change", () => {
	let services: ServiceLab;

	beforeEach(async () => {
		services = await createServiceLab();
		await services.serveTcp({ mode: "greet", port: 8080 });
		await services.serveTcp({ mode: "echo", port: 8083 });
		await services.serveUdp({ mode: "name", port: 8080 });
	});
	afterEach(async () => {
		await services.close();
	});

	const ask = async (number: number, count = 6) =>
		tally(
			await services.client.tcp({ address: clusterIp(number), port: 80, count, timeoutMs: 5_000 }),
		);

	it("a Service without endpoints recovers when they come, and refuses when they go (case 2e, case 34c)", async () => {
		await services.write("a.json", labService({ name: "a", number: 10, endpoints: [] }));
		await services.start();
		expect(await ask(10, 1)).toEqual({ ECONNREFUSED: 1 });
		await services.write("a.json", labService({ name: "a", number: 10, endpoints: [2] }));
		await eventually(async () => expect(await ask(10, 1)).toEqual({ ep2: 1 }));
		await services.write("a.json", labService({ name: "a", number: 10, endpoints: [] }));
		await eventually(async () => expect(await ask(10, 1)).toEqual({ ECONNREFUSED: 1 }));
	});

	it("files added, changed and removed take effect; a broken one keeps its last good state", async () => {
		await services.write("a.json", labService({ name: "a", number: 10 }));
		const daemon = await services.start();
		expect(await ask(10)).toEqual({ ep1: 2, ep2: 2, ep3: 2 });

		await services.write("b.json", labService({ name: "b", number: 11, endpoints: [1] }));
		await eventually(async () => expect(await ask(11, 1)).toEqual({ ep1: 1 }));

		await writeFile(join(services.folder, "b.json"), '{"apiVersion": "v1", "kind": "Serv');
		await services.write("a.json", labService({ name: "a", number: 10, endpoints: [3] }));
		await eventually(async () => expect(await ask(10, 2)).toEqual({ ep3: 2 }));
		expect(await ask(11, 1)).toEqual({ ep1: 1 });
		await daemon.waitForLog(
			({ level, ...line }) => level === "error" && JSON.stringify(line).includes("b.json"),
		);

		await rename(join(services.folder, "b.json"), join(services.folder, "b.off"));
		await eventually(async () => expect(await ask(11, 1)).not.toEqual({ ep1: 1 }));
	});

	it("a proxy port stays while endpoints, affinity and labels change; connections go on (case 25d)", async () => {
		await services.write("e.json", labService({ name: "e", number: 10, targetPort: 8083 }));
		const daemon = await services.start();
		const proxyPort = async (): Promise<unknown> =>
			JSON.parse((await daemon.get("/status", 10_249)).body).servicePorts[0].proxyPort;
		const before = await proxyPort();
		const connection = await services.client.connect({ address: clusterIp(10), port: 80 });
		await connection.write("before ");
		expect((await connection.read(7)).bytes).toBe(7);
		await services.write(
			"e.json",
			labService({
				name: "e",
				number: 10,
				targetPort: 8083,
				endpoints: [2],
				spec: { sessionAffinity: "ClientIP" },
			}),
		);
		await eventually(async () => expect(await ask(10, 1)).toEqual({ "": 1 }));
		expect(await proxyPort()).toBe(before);
		await connection.write("after");
		expect(await connection.read(12)).toMatchObject({ bytes: 12, closed: false });
		await connection.finish("end");
		expect(await connection.read("closed")).toMatchObject({ ended: true, error: undefined });
	});

	it("a UDP client on one socket moves when its endpoint goes (classic 9.8.6)", async () => {
		const ports = [{ name: "p", protocol: "UDP", port: 80, nodePort: 30_080 }];
		const spec = { type: "NodePort", ports };
		const of = (endpoints: number[]) =>
			labService({ name: "u", number: 10, protocol: "UDP", endpoints, spec });
		await services.write("u.json", of([1]));
		await services.start();
		const next = async (address: string, port: number, timeoutMs: number) =>
			(await services.client.udp({ address, port, localPort: 45_000, timeoutMs }))[0]?.answer;
		const both = async (timeoutMs = 500) => [
			await next(clusterIp(10), 80, timeoutMs),
			await next(services.lab.node.ipv4, 30_080, timeoutMs),
		];
		expect(await both(5_000)).toEqual(["ep1", "ep1"]);
		await services.write("u.json", of([]));
		await eventually(async () => expect(await both()).toEqual(["", ""]));
		await services.write("u.json", of([2]));
		await eventually(async () => expect(await both()).toEqual(["ep2", "ep2"]));
	});

	it("a UDP client that talked before the rule existed is served once it does (case 2a)", async () => {
		await services.write("a.json", labService({ name: "a", number: 10 }));
		await services.start();
		const ask45000 = async () =>
			(
				await services.client.udp({
					address: clusterIp(53),
					port: 53,
					localPort: 45_001,
					timeoutMs: 200,
				})
			)[0];
		expect((await ask45000())?.error).toBe("TIMEOUT");
		await services.write(
			"u.json",
			labService({ name: "u", number: 53, protocol: "UDP", port: 53 }),
		);
		await eventually(async () => expect((await ask45000())?.error).toBeUndefined());
	});

	it.each([
		["the nat table is flushed", ["iptables", "-t", "nat", "-F"]],
		["the jump from OUTPUT is deleted", ["iptables", "-t", "nat", "-F", "OUTPUT"]],
		["the filter table is flushed", ["iptables", "-F"]],
		[
			"somebody's rule comes before ours",
			["iptables", "-t", "nat", "-I", "PREROUTING", "-j", "ACCEPT"],
		],
	])(
		"put right within the sync period: %s (case 28a, case 28b, case 28c, classic 9.7.3, 9.8.10)",
		async (_what, [file = "", ...args]) => {
			await services.write("a.json", labService({ name: "a", number: 10 }));
			await services.write("b.json", labService({ name: "b", number: 11, endpoints: [] }));
			const daemon = await services.start(["--iptables-sync-period=1s"]);
			await services.lab.node.exec(file, args);
			await daemon.waitForLog(({ msg }) => msg === "packet rules had been changed, put right");
			expect(await ask(10)).toEqual({ ep1: 2, ep2: 2, ep3: 2 });
			expect(await ask(11, 1)).toEqual({ ECONNREFUSED: 1 });
			const node = await services.lab.node.agent();
			const results = await node.tcp({ address: clusterIp(10), port: 80 });
			expect(results[0]?.error).toBeUndefined();
			const rules = await savedRules(services.lab.node);
			expect(new Set(rules).size).toBe(rules.length);
		},
	);

	it("two SCTP and bad objects are said once and stop nobody", async () => {
		const [, slice] = labService({ name: "a", number: 10 });
		await services.write("a.json", [...labService({ name: "a", number: 10 })]);
		await services.write("bad.json", [
			{ apiVersion: "v1", kind: "Service", metadata: { name: "no-spec" } },
			...labService({ name: "port0", number: 20, port: 0 }),
			...labService({ name: "good", number: 21, endpoints: [1] }),
			{ apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "other" } },
			slice,
		]);
		await services.write("s.json", [
			{
				apiVersion: "v1",
				kind: "Service",
				metadata: { name: "s", namespace: "shop" },
				spec: {
					clusterIP: clusterIp(30),
					ports: [
						{ name: "sig", protocol: "SCTP", port: 80 },
						{ name: "p", protocol: "TCP", port: 80 },
					],
				},
			},
			...labService({ name: "s", number: 30, endpoints: [2] }).slice(1),
		]);
		const daemon = await services.start();
		expect(await ask(10)).toEqual({ ep1: 2, ep2: 2, ep3: 2 });
		expect(await ask(21, 1)).toEqual({ ep1: 1 });
		expect(await ask(30, 1)).toEqual({ ep2: 1 });
		const text = daemon.logs.map((line) => JSON.stringify(line)).join("\n");
		expect(text).toMatch(/no-spec.*spec/);
		expect(text).toMatch(/1\.\.65535, got 0/);
		expect(
			daemon.logs.filter(
				({ level, msg }) => level === "warn" && msg.startsWith("SCTP is not relayed"),
			),
		).toHaveLength(1);
	});
});

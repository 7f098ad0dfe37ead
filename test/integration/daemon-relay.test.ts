import { afterAll, beforeAll, describe, expect, test as it } from "vitest";
import { tally } from "../kit/agent.ts";
import type { DaemonProcess } from "../kit/daemon-process.ts";
import { labProblem } from "../kit/lab.ts";
import { clusterIp, createServiceLab, labService, type ServiceLab } from "../kit/service-lab.ts";

describe.skipIf(labProblem() !== undefined)("the daemon, from files to endpoints", () => {
	let services: ServiceLab;
	let daemon: DaemonProcess;

	beforeAll(async () => {
		services = await createServiceLab();
		const families = ["ipv4", "ipv6"] as const;
		await services.write("services.yaml", [
			...labService({ name: "web", number: 10, families }),
			...labService({
				name: "dns",
				number: 53,
				protocol: "UDP",
				port: 53,
				targetPort: 5353,
				families,
			}),
			...labService({ name: "refusing", number: 11, targetPort: 8081 }),
			...labService({ name: "silent", number: 12, targetPort: 8082 }),
			...labService({ name: "empty", number: 13, endpoints: [] }),
			...labService({ name: "empty-udp", number: 13, protocol: "UDP", endpoints: [] }),
			...labService({
				name: "sticky",
				number: 14,
				spec: {
					sessionAffinity: "ClientIP",
					sessionAffinityConfig: { clientIP: { timeoutSeconds: 60 } },
				},
			}),
			...labService({ name: "echo", number: 15, targetPort: 8083 }),
			...labService({ name: "udp-echo", number: 15, protocol: "UDP", targetPort: 8083 }),
			...labService({ name: "http", number: 16, targetPort: 8084 }),
		]);
		await services.serveTcp({ mode: "greet", port: 8080 });
		await services.serveTcp({ mode: "greet", port: 8082 });
		await services.serveTcp({ mode: "echo", port: 8083 });
		await services.serveTcp({ mode: "http", port: 8084 });
		await services.serveUdp({ mode: "echo", port: 8083 });
		await services.serveUdp({ mode: "name", port: 5353, address: "::" });
		const two = services.lab.endpoints.slice(0, 2);
		await Promise.all(
			two.map(async (endpoint) =>
				(await endpoint.agent()).serveTcp({ mode: "greet", name: endpoint.role, port: 8081 }),
			),
		);
		await services.lab.endpoints[2]?.goSilent(8082);
		daemon = await services.start();
	});

	afterAll(async () => {
		await services.close();
	});

	/** How many dial attempts of a ServicePort had this outcome, by the metrics. */
	async function attempts(service: string, outcome: string): Promise<number> {
		const { body } = await daemon.get("/metrics", 10_249);
		const line = body
			.split("\n")
			.find(
				(text) =>
					text.startsWith("kube_userproxy_dial_attempts_total{") &&
					text.includes(`service="${service}"`) &&
					text.includes(`outcome="${outcome}"`),
			);
		return Number(line?.split(" ").at(-1) ?? 0);
	}

	it.each(["ipv4", "ipv6"] as const)(
		"%s: TCP requests reach the endpoints in turn",
		async (family) => {
			const results = await services.client.tcp({
				address: clusterIp(10, family),
				port: 80,
				count: 9,
			});
			expect(tally(results)).toEqual({ ep1: 3, ep2: 3, ep3: 3 });
		},
	);

	it.each(["ipv4", "ipv6"] as const)(
		"%s: UDP clients reach the endpoints in turn, answered from the address they asked",
		async (family) => {
			const address = clusterIp(53, family);
			const results = await services.client.udp({ address, port: 53, count: 9, socketEach: true });
			expect(tally(results)).toEqual({ ep1: 3, ep2: 3, ep3: 3 });
			const from = family === "ipv4" ? `${address}:53` : `[${address}]:53`;
			expect(new Set(results.map((result) => result.from))).toEqual(new Set([from]));
		},
	);

	it("the node itself, an endpoint and another network reach the Services too (classic 9.8.1)", async () => {
		const { node, outside, endpoints } = services.lab;
		for (const place of [node, outside, ...endpoints.slice(0, 1)]) {
			const agent = await place.agent();
			const tcp = await agent.tcp({ address: clusterIp(10), port: 80, count: 3 });
			expect(tally(tcp), place.role).toEqual({ ep1: 1, ep2: 1, ep3: 1 });
			const udp = await agent.udp({ address: clusterIp(53), port: 53, count: 3, socketEach: true });
			expect(tally(udp), place.role).toEqual({ ep1: 1, ep2: 1, ep3: 1 });
			expect(udp[0]?.from).toBe(`${clusterIp(53)}:53`);
		}
	});

	it("HTTP requests are answered from everywhere, also with a body of 2,000 bytes (classic 9.1.1, 9.8.1, 9.8.7)", async () => {
		const { client, node, endpoints } = services.lab;
		const url = `http://${clusterIp(16)}:80/any/path`;
		for (const place of [client, node, ...endpoints.slice(0, 1)]) {
			const agent = await place.agent();
			const answer = await agent.get(url);
			expect([place.role, answer.status]).toEqual([place.role, 200]);
			expect(answer.body).toMatch(/^ep[123]$/);
			const body = "2,000 bytes ".repeat(200).slice(0, 2_000);
			const echoed = await agent.call("httpGet", { url, method: "POST", body });
			expect([place.role, echoed.body]).toEqual([place.role, body]);
		}
	});

	it("1,000 connections over three endpoints: 333, 333, 334", async () => {
		const results = await services.client.tcp({
			address: clusterIp(10),
			port: 80,
			count: 1_000,
			concurrency: 50,
		});
		const counts = Object.values(tally(results)).toSorted((a, b) => a - b);
		expect(counts).toEqual([333, 333, 334]);
	});

	it("one endpoint refuses: 1,000 of 1,000 succeed, and the records tell of the retry", async () => {
		const results = await services.client.tcp({
			address: clusterIp(11),
			port: 80,
			count: 1_000,
			concurrency: 50,
		});
		expect(tally(results)).toEqual({ ep1: 500, ep2: 500 });
		const { body } = await daemon.get("/connections/recent?service=shop/refusing", 10_249);
		const { records } = JSON.parse(body) as { records: { attempts: unknown[] }[] };
		const retried = records.filter(({ attempts }) => attempts.length > 1);
		expect(retried[0]?.attempts).toMatchObject([
			{ endpoint: "10.2.3.2:8081", outcome: "refused" },
			{ outcome: "connected" },
		]);
	});

	it("one endpoint is silent: 1,000 of 1,000 succeed, and it costs almost nobody its timeout", async () => {
		const first = await services.client.tcp({ address: clusterIp(12), port: 80, count: 3 });
		expect(Object.keys(tally(first))).toEqual(["ep1", "ep2"]);
		const results = await services.client.tcp({
			address: clusterIp(12),
			port: 80,
			count: 1_000,
			concurrency: 50,
		});
		expect(results.filter(({ error }) => error !== undefined)).toEqual([]);
		// By the metrics, since the connection log leaves out what comes too fast for any disk.
		const timeouts = await attempts("shop/silent:p", "timeout");
		expect(timeouts).toBeGreaterThanOrEqual(1);
		expect(timeouts).toBeLessThanOrEqual(10);
	});

	it("no endpoints: refused at once, TCP and UDP, from the client and on the node (case 34a, classic 9.1.26, 9.8.9)", async () => {
		for (const place of [services.lab.client, services.lab.node]) {
			const agent = await place.agent();
			const [tcp] = await agent.tcp({ address: clusterIp(13), port: 80 });
			expect(tcp?.error, place.role).toBe("ECONNREFUSED");
			const [udp] = await agent.udp({ address: clusterIp(13), port: 80, connected: true });
			expect(udp?.error, place.role).toBe("ECONNREFUSED");
		}
	});

	it("session affinity keeps a client on one endpoint", async () => {
		const results = await services.client.tcp({ address: clusterIp(14), port: 80, count: 30 });
		expect(Object.values(tally(results))).toEqual([30]);
	});

	it("10 MB pass both ways unharmed, with the client ending its direction first (case 1a)", async () => {
		const sendBytes = 10_000_000;
		const [result] = await services.client.tcp({ address: clusterIp(15), port: 80, sendBytes });
		const [direct] = await services.client.tcp({ address: "10.2.1.2", port: 8083, sendBytes });
		expect(result?.bytes).toBe(sendBytes);
		expect(result?.sha256).toBe(direct?.sha256);
	});

	it.each([0, 1, 1_472, 4_097, 65_507])(
		"a datagram of %i bytes passes whole, both ways (classic 9.1.34, 9.8.7)",
		async (sendBytes) => {
			const [result] = await services.client.udp({ address: clusterIp(15), port: 80, sendBytes });
			expect(result?.error).toBeUndefined();
			expect(result?.bytes).toBe(sendBytes);
		},
	);

	it("a proxy port is not reachable from outside the node, by neither protocol (case 33c)", async () => {
		const status = JSON.parse((await daemon.get("/status", 10_249)).body) as {
			servicePorts: { key: string; proxyPort: number }[];
		};
		const portOf = (key: string): number =>
			status.servicePorts.find((port) => port.key === key)?.proxyPort ?? 0;
		const { node } = services.lab;
		const tcpPort = portOf("shop/web:p/tcp/ipv4");
		const udpPort = portOf("shop/dns:p/udp/ipv4");
		for (const address of [node.ipv4, "10.3.0.1"]) {
			const [tcp] = await services.client.tcp({ address, port: tcpPort, timeoutMs: 700 });
			expect(tcp?.error).toBe("TIMEOUT");
			const [udp] = await services.client.udp({ address, port: udpPort, timeoutMs: 700 });
			expect(udp?.error).toBe("TIMEOUT");
		}
		const [v6] = await services.client.tcp({
			address: node.ipv6,
			port: portOf("shop/web:p/tcp/ipv6"),
			timeoutMs: 700,
		});
		expect(v6?.error).toBe("TIMEOUT");
	});

	it("answers on its health and metrics ports (classic 9.8.12)", async () => {
		expect(await daemon.get("/readyz")).toMatchObject({ status: 200 });
		expect(await daemon.get("/livez")).toMatchObject({ status: 200 });
		const health = await daemon.get("/healthz");
		expect(health.status).toBe(200);
		expect(JSON.parse(health.body)).toMatchObject({ healthy: true });
		const { body } = await daemon.get("/metrics", 10_249);
		expect(body).toMatch(
			/^kubeproxy_sync_proxy_rules_duration_seconds_count\{ip_family="IPv4"\} [1-9]/m,
		);
		expect(body).toMatch(/^kube_userproxy_connections_total\{service="shop\/web:p".*\} [1-9]/m);
		expect(await daemon.get("/proxyMode", 10_249)).toMatchObject({ body: "userspace" });
	});
});

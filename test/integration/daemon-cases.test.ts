import { afterEach, beforeEach, describe, expect, test as it } from "vitest";
import { formatSocketAddress } from "../../src/services/address.ts";
import { type Agent, tally } from "../kit/agent.ts";
import { startLabApi } from "../kit/api-lab.ts";
import { startDaemon } from "../kit/daemon-process.ts";
import { labProblem } from "../kit/lab.ts";
import type { LabNamespace } from "../kit/lab-namespace.ts";
import { RELAY_ENGINES } from "../kit/relay-engines.ts";
import {
	clusterIp,
	createServiceLab,
	eventually,
	labService,
	type ServiceLab,
	savedRules,
} from "../kit/service-lab.ts";

/** Every readable value under net.* of a namespace, but for what the kernel counts there. */
async function netSysctls(namespace: LabNamespace): Promise<Map<string, string>> {
	const { stdout } = await namespace.exec("sh", ["-c", "cd /proc/sys/net && grep -rs . . || true"]);
	const values = new Map<string, string>();
	for (const line of stdout.split("\n")) {
		const at = line.indexOf(":");
		const key = line.slice(0, at);
		if (!key.endsWith("/nf_conntrack_count")) values.set(key, line.slice(at + 1));
	}
	return values;
}

/**
 * What users of service proxies have reported, each as a small case. The names end with the public
 * report where there is one, and with the number in test/public-cases.md.
 */
describe.skipIf(labProblem() !== undefined)("cases from public reports", () => {
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

	const tcp = async (number: number, count = 3) =>
		tally(await services.client.tcp({ address: clusterIp(number), port: 80, count }));
	const udp = async (number: number, count = 3) =>
		await services.client.udp({ address: clusterIp(number), port: 80, count, socketEach: true });
	const both = () => [
		...labService({ name: "t", number: 10 }),
		...labService({ name: "u", number: 12, protocol: "UDP" }),
	];

	it("one endpoint swallows SYNs, one refuses, one is good: all of 50 clients are answered, each by one (kubernetes#12242) (case 24a)", async () => {
		const [silent, good] = services.lab.endpoints;
		await silent?.goSilent(8090);
		const server = await (await good?.agent())?.serveTcp({ mode: "echo", name: "ep2", port: 8090 });
		await services.write("a.json", labService({ name: "a", number: 10, targetPort: 8090 }));
		const daemon = await services.start();
		const results = await services.client.tcp({
			address: clusterIp(10),
			port: 80,
			count: 50,
			concurrency: 50,
			send: "request",
			timeoutMs: 10_000,
		});
		expect(tally(results)).toEqual({ request: 50 });
		expect(await server?.stats()).toMatchObject({ received: 50, bytes: 50 * "request".length });
		const tried = daemon.logs
			.filter(({ msg }) => msg === "connection")
			.map((line) => (line["attempts"] ?? []) as { endpoint: string }[]);
		for (const attempts of tried) {
			expect(new Set(attempts.map(({ endpoint }) => endpoint)).size).toBe(attempts.length);
		}
	});

	it("clients that reset at once, and a UDP endpoint that is down and comes up, end nobody (moby#52483) (case 37a, case 37b, case 37c)", async () => {
		for (const endpoint of services.lab.endpoints) await endpoint.goSilent(8082);
		await services.write("a.json", [
			...labService({ name: "echo", number: 10, targetPort: 8083 }),
			...labService({ name: "silent", number: 11, targetPort: 8082 }),
			...labService({ name: "u", number: 12, protocol: "UDP", targetPort: 8085, endpoints: [1] }),
		]);
		const daemon = await services.start(["--udp-timeout=1s"]);
		await daemon.get("/readyz");
		const before = daemon.openDescriptors();
		const reset = async (number: number) =>
			await services.client.tcp({
				address: clusterIp(number),
				port: 80,
				count: 1_000,
				concurrency: 500,
				send: "x",
				after: "reset",
			});
		for (const results of [await reset(10), await reset(11)]) {
			expect(results.filter(({ connected }) => !connected)).toEqual([]);
		}
		const ask = async (count: number, timeoutMs = 5_000) =>
			await services.client.udp({
				address: clusterIp(12),
				port: 80,
				count,
				localPort: 45_000,
				timeoutMs,
			});
		expect(tally(await ask(5, 100))).toEqual({ TIMEOUT: 5 });
		const [first] = services.lab.endpoints;
		await (await first?.agent())?.serveUdp({ mode: "name", name: "ep1", port: 8085 });
		expect(tally(await ask(5))).toEqual({ ep1: 5 });
		await eventually(async () => {
			expect(await daemon.metric("kube_userproxy_tcp_connections")).toBe(0);
			expect(await daemon.metric("kube_userproxy_udp_flows")).toBe(0);
			expect(daemon.openDescriptors()).toBeLessThanOrEqual(before);
		});
		expect(daemon.stderr).toBe("");
	});

	it("a running connection outlives labels, affinity, the endpoint's end and the Service's (kubernetes#46753) (case 19f, case 25a, case 25c, case 25d)", async () => {
		interface Raw {
			metadata: { labels: Record<string, string> };
			spec: Record<string, unknown>;
			endpoints: { conditions: object }[];
		}
		const [service, slice] = structuredClone(
			labService({ name: "e", number: 10, targetPort: 8083, endpoints: [1] }),
		) as [Raw, Raw];
		const other = { addresses: ["10.2.2.2"], conditions: { ready: true } };
		const steps: [string, () => void][] = [
			["a label", () => (service.metadata.labels = { team: "checkout" })],
			["session affinity", () => (service.spec["sessionAffinity"] = "ClientIP")],
			["another endpoint", () => slice.endpoints.push(other)],
			[
				"terminating",
				() => {
					const conditions = { ready: false, serving: true, terminating: true };
					slice.endpoints = slice.endpoints.map((endpoint, index) =>
						index === 0 ? { ...endpoint, conditions } : endpoint,
					);
				},
			],
			["gone from the slice", () => (slice.endpoints = [other])],
		];
		await services.write("e.json", [service, slice]);
		const daemon = await services.start();
		const connection = await services.client.connect({ address: clusterIp(10), port: 80 });
		let bytes = 0;
		const goesOn = async (what: string) => {
			await connection.write(what);
			bytes += what.length;
			expect(await connection.read(bytes), what).toMatchObject({ bytes, closed: false });
		};
		await goesOn("at first");
		for (const [index, [what, change]] of steps.entries()) {
			change();
			// A Service that comes with the step tells when the step has been taken.
			const marker = labService({ name: `marker-${index}`, number: 20 + index });
			await services.write("e.json", [service, slice, ...marker]);
			await eventually(async () =>
				expect((await daemon.get("/status", 10_249)).body).toContain(`marker-${index}`),
			);
			await goesOn(what);
		}
		// Whoever comes now comes to the other endpoint.
		await eventually(async () => {
			const [result] = await services.client.tcp({ address: clusterIp(10), port: 80, send: "hi" });
			expect(result?.answer).toBe("hi");
			const last = daemon.logs.filter(({ msg }) => msg === "connection").at(-1);
			expect(last?.["endpoint"]).toBe("10.2.2.2:8083");
		});
		await services.write("e.json", []);
		await eventually(async () => expect(await daemon.metric("kube_userproxy_listeners")).toBe(0));
		await goesOn("the Service deleted");
		await connection.finish("end");
		expect(await connection.read("closed")).toMatchObject({ ended: true, error: undefined });
	});

	it("no sysctl of the network is another one, route_localnet above all (kubernetes#92315) (case 33b)", async () => {
		const { node } = services.lab;
		await services.write("a.json", both());
		// The modules that rules load bring values of their own.
		const warmUp = await services.start();
		await warmUp.stop();
		const before = await netSysctls(node);
		const daemon = await services.start();
		await tcp(10);
		await udp(12);
		expect(before.get("./ipv4/conf/all/route_localnet")).toBe("0");
		expect(await netSysctls(node)).toEqual(before);
		await daemon.stop();
		expect(await netSysctls(node)).toEqual(before);
	});

	it("a neighbour that sends to the node's loopback reaches no node port and no process there (kubernetes#90259) (case 33a)", async () => {
		const { node, client } = services.lab;
		const nodePort = 30_080;
		const ports = [{ name: "p", protocol: "TCP", port: 80, nodePort }];
		await services.write(
			"a.json",
			labService({ name: "t", number: 10, endpoints: [1], spec: { type: "NodePort", ports } }),
		);
		const onNode = await node.agent();
		await onNode.serveTcp({ mode: "greet", name: "local", port: 1_234, address: "127.0.0.1" });
		await services.start(["--nodeport-addresses=127.0.0.0/8"]);
		const loopback = async (from: typeof onNode, port: number, timeoutMs = 5_000) =>
			tally(await from.tcp({ address: "127.0.0.1", port, timeoutMs }));
		expect(await loopback(onNode, nodePort)).toEqual({ ep1: 1 });
		// To the client 127.0.0.1 is the node, as to somebody who forges packets.
		await client.sysctl({ "net.ipv4.conf.all.route_localnet": "1" });
		await client.ip("addr", "del", "127.0.0.1/8", "dev", "lo");
		await client.ip("route", "add", "127.0.0.1/32", "via", node.ipv4, "src", client.ipv4);
		expect(await loopback(services.client, nodePort, 700)).toEqual({ TIMEOUT: 1 });
		expect(await loopback(services.client, 1_234, 700)).toEqual({ TIMEOUT: 1 });
		// Where somebody has set it on the node, such packets do arrive.
		await node.sysctl({ "net.ipv4.conf.all.route_localnet": "1" });
		expect(await loopback(services.client, 1_234)).toEqual({ local: 1 });
		expect(await loopback(services.client, nodePort, 700)).not.toEqual({ ep1: 1 });
	});

	it("conntrack is flushed: what clients go on with lives, newcomers are served (kubernetes#81517) (case 28e)", async () => {
		await services.write("a.json", [
			...both(),
			...labService({ name: "e", number: 11, targetPort: 8083 }),
		]);
		await services.start();
		const connection = await services.client.connect({ address: clusterIp(11), port: 80 });
		await connection.write("before");
		await connection.read(6);
		expect((await udp(12))[0]?.error).toBeUndefined();
		await services.lab.node.exec("conntrack", ["-F"]);
		// The client speaks first: its packet passes the nat rules again and comes to the same socket.
		// Would the endpoint, its bytes would reach the client from an address that it does not know.
		await connection.write("after");
		expect(await connection.read(11)).toMatchObject({ bytes: 11, closed: false });
		expect(await tcp(10)).toEqual({ ep1: 1, ep2: 1, ep3: 1 });
		expect((await udp(12))[0]?.from).toBe(`${clusterIp(12)}:80`);
	});

	it("a firewall that drops all but the Service's port lets in what we redirect, and nothing else (kubernetes#3025) (case 10a)", async () => {
		const { node } = services.lab;
		const rules = [
			["-A", "INPUT", "-i", "lo", "-j", "ACCEPT"],
			["-A", "INPUT", "-m", "conntrack", "--ctstate", "ESTABLISHED", "-j", "ACCEPT"],
			["-A", "INPUT", "-p", "tcp", "--dport", "80", "-j", "ACCEPT"],
			["-P", "INPUT", "DROP"],
		];
		for (const rule of rules) await node.exec("iptables", rule);
		await (await node.agent()).serveTcp({ mode: "greet", name: "node", port: 9_000 });
		await services.write("a.json", both());
		await services.start();
		expect(await tcp(10)).toEqual({ ep1: 1, ep2: 1, ep3: 1 });
		expect(tally(await udp(12))).toEqual({ ep1: 1, ep2: 1, ep3: 1 });
		const onNode = await node.agent();
		const own = await onNode.tcp({ address: clusterIp(10), port: 80, count: 3 });
		expect(tally(own)).toEqual({ ep1: 1, ep2: 1, ep3: 1 });
		const [other] = await services.client.tcp({
			address: node.ipv4,
			port: 9_000,
			timeoutMs: 500,
		});
		expect(other?.error).toBe("TIMEOUT");
	});

	/** The client has an address of the second subnet of the node's interface alone. */
	const moveToSecondSubnet = async (device: string) => {
		const { node, client } = services.lab;
		await node.ip("addr", "add", "192.168.77.1/24", "dev", device);
		await client.ip("addr", "flush", "dev", "eth0", "scope", "global");
		await client.ip("addr", "add", "192.168.77.2/24", "dev", "eth0");
		await client.ip("route", "replace", "default", "via", "192.168.77.1");
		await node.ip("addr", "add", "fd77::1/64", "dev", device, "nodad");
		await client.ip("addr", "add", "fd77::2/64", "dev", "eth0", "nodad");
		await client.ip("-6", "route", "replace", "default", "via", "fd77::1");
	};
	/** Where answers come from to an agent; a connected socket takes them from nowhere else. */
	const answersTo = async (agent: Agent, address: string, port = 80, localPort?: number) => {
		const asking = { address, port, ...(localPort === undefined ? {} : { localPort }) };
		const [any] = await agent.udp(asking);
		const [strict] = await agent.udp({ ...asking, connected: true });
		return [any?.from ?? any?.error, strict?.error ?? "answered"];
	};
	const asAsked = (address: string, port = 80) => [formatSocketAddress(address, port), "answered"];
	/** The same for the client and the node, and who answers over TCP. */
	const answers = async () => [
		...(await answersTo(services.client, clusterIp(12))),
		...(await answersTo(await services.lab.node.agent(), clusterIp(12))),
		await tcp(10),
	];
	const asTheyShould = [
		...asAsked(clusterIp(12)),
		...asAsked(clusterIp(12)),
		{ ep1: 1, ep2: 1, ep3: 1 },
	];

	it.each(RELAY_ENGINES)(
		"two subnets on one link: answers come from the address that was asked (%s) (kubernetes#2996) (case 6a, case 6b)",
		async (engine) => {
			await moveToSecondSubnet("to-client");
			await services.serveUdp({ mode: "name", port: 8081, address: "::" });
			const six = { families: ["ipv6"], protocol: "UDP", targetPort: 8081 } as const;
			await services.write("a.json", [...both(), ...labService({ name: "v", number: 13, ...six })]);
			await services.start([`--relay=${engine}`]);
			expect(await answers()).toEqual(asTheyShould);
			const address = clusterIp(13, "ipv6");
			for (const agent of [services.client, await services.lab.node.agent()]) {
				expect(await answersTo(agent, address)).toEqual(asAsked(address));
			}
		},
	);

	it("two addresses on one interface: a socket on all addresses answers from the one that was asked (case 6a)", async () => {
		const { node } = services.lab;
		await node.ip("addr", "add", "192.168.77.1/24", "dev", "to-client");
		await node.ip("addr", "add", "fd77::1/64", "dev", "to-client", "nodad");
		await services.serveUdp({ mode: "name", port: 8081, address: "::" });
		const families = ["ipv4", "ipv6"] as const;
		await services.write(
			"a.json",
			labService({ name: "u", number: 12, protocol: "UDP", targetPort: 8081, families }),
		);
		// Rules would lead both addresses to one, and keep the client from the proxy port.
		const port = 30_053;
		await services.start(["--relay=syscall", "--rules=none", `--proxy-port-range=${port}-${port}`]);
		for (const address of ["10.1.0.1", "192.168.77.1", "fd10:1::1", "fd77::1"]) {
			// One client port: it is one flow for each address.
			expect(await answersTo(services.client, address, port, 21_001)).toEqual(
				asAsked(address, port),
			);
		}
	});

	it("a Pod behind a bridge with two subnets is answered from the address that it asked (case 6c)", async () => {
		const { node } = services.lab;
		await node.ip("link", "add", "pods0", "type", "bridge");
		await node.ip("link", "set", "pods0", "up");
		await node.ip("addr", "del", "10.1.0.1/24", "dev", "to-client");
		await node.ip("addr", "add", "10.1.0.1/24", "dev", "pods0");
		await node.ip("link", "set", "to-client", "master", "pods0");
		await moveToSecondSubnet("pods0");
		await services.write("a.json", both());
		await services.start();
		expect(await answers()).toEqual(asTheyShould);
	});

	it.each(RELAY_ENGINES)(
		"an interface without an address, as of pods with a route each: UDP is served (%s) (cni-plugin#38) (case 16)",
		async (engine) => {
			const { node, client } = services.lab;
			await node.sysctl({ "net.ipv4.conf.to-client.proxy_arp": "1" });
			await node.ip("addr", "del", "10.1.0.1/24", "dev", "to-client");
			await node.ip("route", "add", "10.1.0.2/32", "dev", "to-client", "scope", "link");
			await client.ip("addr", "flush", "dev", "eth0", "scope", "global");
			await client.ip("addr", "add", "10.1.0.2/32", "dev", "eth0");
			await client.ip("route", "add", "169.254.1.1", "dev", "eth0", "scope", "link");
			await client.ip("route", "add", "default", "via", "169.254.1.1");
			await services.write("a.json", both());
			await services.start([`--relay=${engine}`]);
			expect((await udp(12)).map(({ from }) => from)).toEqual(Array(3).fill(`${clusterIp(12)}:80`));
		},
	);

	it("a restart: clients fail only while no process listens, and never see half a state (kubernetes#75360) (case 22a, case 22b)", async () => {
		const { node } = services.lab;
		const api = await startLabApi(node);
		await api.put(...both());
		const start = () =>
			startDaemon({
				in: node,
				flags: [`--master=${api.url}`, "--iptables-min-sync-period=100ms"],
			});
		const first = start();
		await first.ready();
		const rules = await savedRules(node);
		const asked: { readonly began: number; readonly ended: number; readonly answer: string }[] = [];
		const askOnce = async () => {
			const began = performance.now();
			const address = clusterIp(10);
			const [result] = await services.client.tcp({ address, port: 80, timeoutMs: 2_000 });
			const answer = result?.error ?? result?.answer ?? "";
			asked.push({ began, ended: performance.now(), answer });
		};
		const asking = new Set<Promise<void>>();
		const timer = setInterval(() => {
			const one = askOnce().finally(() => asking.delete(one));
			asking.add(one);
		}, 50);
		const isServed = ({ answer }: { answer: string }) => /^ep[123]$/.test(answer);
		try {
			await eventually(async () => expect(asked.length).toBeGreaterThan(5));
			await api.fail({ plural: "endpointslices", verb: "list", fault: { delayMs: 3_000 } });
			const killed = performance.now();
			await first.kill9();
			const second = start();
			await eventually(async () => {
				const { status, body } = await second.get("/readyz");
				expect(status, body).toBe(503);
			});
			expect(await savedRules(node)).toEqual(rules);
			await second.ready();
			const ready = performance.now();
			const count = asked.length;
			await eventually(async () => expect(asked.length).toBeGreaterThan(count + 10));
			clearInterval(timer);
			await Promise.all(asking);
			expect(asked.filter((one) => one.ended < killed).filter((one) => !isServed(one))).toEqual([]);
			expect(asked.filter((one) => one.began > ready).filter((one) => !isServed(one))).toEqual([]);
			const meanwhile = asked.filter((one) => !isServed(one)).map(({ answer }) => answer);
			// Refused at once by the kernel, or cut off by the kill; nobody hangs.
			expect(meanwhile).not.toContain("TIMEOUT");
			expect(meanwhile.length).toBeGreaterThan(0);
			expect(await savedRules(node)).toEqual(rules);
			expect(second.logs.filter(({ msg }) => msg === "packet rules applied").length).toBeLessThan(
				2,
			);
		} finally {
			clearInterval(timer);
			await Promise.all(asking);
		}
	});
});

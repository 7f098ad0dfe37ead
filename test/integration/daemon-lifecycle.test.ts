import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test as it } from "vitest";
import { tally } from "../kit/agent.ts";
import { DAEMON_PROGRAM, type DaemonProcess, startDaemon } from "../kit/daemon-process.ts";
import { labProblem } from "../kit/lab.ts";
import { RELAY_ENGINES } from "../kit/relay-engines.ts";
import {
	clusterIp,
	createServiceLab,
	eventually,
	labService,
	type ServiceLab,
	savedRules,
} from "../kit/service-lab.ts";

/** For a process that is only just being started, on a machine that has other things to do. */
const START_MS = 60_000;

/** For a program of Node's that is to run this first. */
const withImport = (code: string) => ({
	NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(code)}`,
});

describe.skipIf(labProblem() !== undefined)("the daemon's life", () => {
	let services: ServiceLab;

	beforeEach(async () => {
		services = await createServiceLab();
		await services.serveTcp({ mode: "greet", port: 8080 });
		await services.serveTcp({ mode: "echo", port: 8083 });
		await services.serveUdp({ mode: "name", port: 8080 });
		await services.write("a.json", labService({ name: "a", number: 10 }));
		await services.write("e.json", labService({ name: "e", number: 11, targetPort: 8083 }));
		await services.write("u.json", labService({ name: "u", number: 12, protocol: "UDP" }));
	});
	afterEach(async () => {
		await services.close();
	});

	const ask = async (number: number, count = 3, timeoutMs = 5_000) =>
		tally(await services.client.tcp({ address: clusterIp(number), port: 80, count, timeoutMs }));
	const command = (...args: string[]) =>
		services.lab.node.exec(process.execPath, [DAEMON_PROGRAM, ...args]);

	it.each(RELAY_ENGINES)(
		"SIGTERM: nothing new comes in, what is there may end, status 0, no rule left (%s) (case 39b)",
		async (relay) => {
			const daemon = await services.start(["--drain-timeout=20s", `--relay=${relay}`]);
			const connection = await services.client.connect({ address: clusterIp(11), port: 80 });
			await connection.write("one ");
			await connection.read(4);
			const stopped = daemon.stop("SIGTERM");
			await daemon.waitForLog(({ msg }) => msg === "waiting for connections to end");
			expect(Object.keys(await ask(10, 1, 500))).not.toContain("ep1");
			await connection.write("two");
			expect((await connection.read(7)).bytes).toBe(7);
			await connection.finish("end");
			await connection.read("closed");
			expect(await stopped).toEqual({ code: 0, signal: null });
			expect(await savedRules(services.lab.node)).toEqual([]);
		},
	);

	it("the drain time is a bound, and a second signal ends the wait (case 39a)", async () => {
		const daemon = await services.start(["--drain-timeout=300ms"]);
		const echo = { address: clusterIp(11), port: 80 };
		const idle = await Promise.all(Array.from({ length: 10 }, () => services.client.connect(echo)));
		expect(await daemon.stop("SIGTERM")).toEqual({ code: 0, signal: null });
		for (const connection of idle) {
			const end = await connection.read("closed");
			expect(end).toMatchObject({ closed: true, error: "ECONNRESET" });
		}

		const second = await services.start(["--drain-timeout=1h"]);
		const held = await services.client.connect({ address: clusterIp(11), port: 80 });
		await held.write("x");
		await held.read(1);
		second.signal("SIGINT");
		await second.waitForLog(({ msg }) => msg === "waiting for connections to end");
		expect(await second.stop("SIGTERM")).toEqual({ code: 0, signal: null });
		expect(await savedRules(services.lab.node)).toEqual([]);
	});

	it("kill -9: the successor takes over rules, ports and UDP clients in one step (case 4b, case 22a, case 39b, classic 9.1.31, 9.8.11)", async () => {
		const first = await services.start();
		const ports = async (daemon: DaemonProcess): Promise<unknown> =>
			JSON.parse((await daemon.get("/status", 10_249)).body).servicePorts.map(
				(port: { key: string; proxyPort: number }) => [port.key, port.proxyPort],
			);
		const before = await ports(first);
		const askUdp = async (timeoutMs: number) =>
			(
				await services.client.udp({
					address: clusterIp(12),
					port: 80,
					localPort: 45_000,
					timeoutMs,
				})
			)[0]?.error;
		expect(await askUdp(5_000)).toBeUndefined();
		await first.kill9();
		expect((await savedRules(services.lab.node)).length).toBeGreaterThan(0);
		const rulesBefore = await savedRules(services.lab.node);
		const second = await services.start();
		expect(await ports(second)).toEqual(before);
		expect(await savedRules(services.lab.node)).toEqual(rulesBefore);
		await eventually(async () => expect(await askUdp(300)).toBeUndefined());
		expect(await ask(10)).toEqual({ ep1: 1, ep2: 1, ep3: 1 });
	});

	it("no predecessor's rule is touched before every source has delivered (case 22b, classic 9.1.31)", async () => {
		const first = await services.start();
		await first.kill9();
		const rules = await savedRules(services.lab.node);
		const second = await services.start([`--manifests=${services.folder}/not-there-yet.json`], {
			isReady: false,
		});
		await second.waitForLog(({ msg }) => msg === "starting", { timeoutMs: START_MS });
		await eventually(async () => expect((await second.get("/readyz")).status).toBe(503));
		expect(await savedRules(services.lab.node)).toEqual(rules);
		await services.write("not-there-yet.json", labService({ name: "n", number: 20 }));
		await second.ready();
		expect(await ask(20)).toEqual({ ep1: 1, ep2: 1, ep3: 1 });
	});

	it("a node where koffi is not installed is served all the same, TCP and UDP, and one line says why", async () => {
		const absent = `
			import { registerHooks } from "node:module";
			const absent = () => { throw new Error("koffi is not there"); };
			registerHooks({ resolve: (name, context, next) => name === "koffi" ? absent() : next(name, context) });
		`;
		const daemon = await services.start([], { env: withImport(absent) });
		expect(daemon.logs.filter(({ level }) => level === "warn")).toMatchObject([
			{ msg: expect.stringContaining("system calls"), reason: "koffi is not there" },
		]);
		expect(await ask(10)).toEqual({ ep1: 1, ep2: 1, ep3: 1 });
		const answers = await services.client.udp({ address: clusterIp(12), port: 80, count: 3 });
		expect(answers.filter(({ error }) => error !== undefined)).toEqual([]);
	});

	it("what throws where nobody catches is the last line of the log, with status 1 (case 39e)", async () => {
		const bug = 'process.on("SIGWINCH", () => setTimeout(() => { throw new Error("a bug"); }));';
		const daemon = await services.start([], {
			env: withImport(bug),
		});
		daemon.signal("SIGWINCH");
		expect(await daemon.ended).toEqual({ code: 1, signal: null });
		expect(daemon.logs.at(-1)).toMatchObject({
			level: "error",
			error: "a bug",
			stack: expect.stringContaining("setTimeout"),
		});
		expect(daemon.stderr).toBe("");
	});

	it("interfaces that come up after the start: TCP and UDP are served then (case 39c)", async () => {
		const { node, endpoints } = services.lab;
		const addresses = new Map([
			["to-client", "10.1.0.1/24"],
			["to-outside", "10.3.0.1/24"],
			...endpoints.map(({ role }, index) => [`to-${role}`, `10.2.${index + 1}.1/24`] as const),
		]);
		for (const device of addresses.keys()) {
			await node.ip("addr", "flush", "dev", device);
			await node.ip("link", "set", device, "down");
		}
		const daemon = await services.start();
		for (const [device, address] of addresses) {
			await node.ip("link", "set", device, "up");
			await node.ip("addr", "add", address, "dev", device);
		}
		await node.ip("route", "add", "default", "via", "10.3.0.2");
		const askUdp = async () =>
			(await services.client.udp({ address: clusterIp(12), port: 80, timeoutMs: 1_000 }))[0];
		await eventually(async () => {
			expect(await ask(10)).toEqual({ ep1: 1, ep2: 1, ep3: 1 });
			expect((await askUdp())?.from).toBe(`${clusterIp(12)}:80`);
		}, 40_000);
		expect((await daemon.get("/readyz")).status).toBe(200);
	});

	it("cleanup removes everything, twice, with no state and no API (case 39g, classic 9.1.30)", async () => {
		const daemon = await services.start();
		await daemon.kill9();
		const foreign = ["-t", "nat", "-A", "PREROUTING", "-p", "tcp", "--dport", "9", "-j", "ACCEPT"];
		await services.lab.node.exec("iptables", foreign);
		const first = await command("cleanup");
		expect(first.stdout).not.toBe("");
		expect(await savedRules(services.lab.node)).toEqual([
			"-A PREROUTING -p tcp -m tcp --dport 9 -j ACCEPT",
		]);
		await command("cleanup");
		const chains = (await services.lab.node.exec("iptables-save", [])).stdout;
		expect(chains).not.toContain("KUBE-");
	});

	it("works on the legacy variant where the host uses that, and leaves nft alone (case 36a)", async () => {
		const { node } = services.lab;
		await node.exec("iptables-legacy", ["-A", "INPUT", "-p", "tcp", "--dport", "9", "-j", "DROP"]);
		const daemon = await services.start();
		expect((await daemon.waitForLog(({ msg }) => msg === "packet rules chosen"))["variant"]).toBe(
			"legacy",
		);
		expect(await ask(10)).toEqual({ ep1: 1, ep2: 1, ep3: 1 });
		expect(await savedRules(node)).toEqual([]);
		await daemon.stop();
		expect(await savedRules(node, "legacy")).toEqual(["-A INPUT -p tcp -m tcp --dport 9 -j DROP"]);
	});

	it("a kernel without nat: said clearly, tried again, nothing half done, and served once it is there", async () => {
		const { node } = services.lab;
		const folder = await mkdtemp(join(tmpdir(), "kup-fake-iptables-"));
		const refusal = "iptables: can't initialize iptables table `nat': Table does not exist";
		const script = `#!/bin/sh\ncat > /dev/null\ncat >&2 <<'END'\n${refusal}\nEND\nexit 3\n`;
		const fakes = ["iptables", "ip6tables"].flatMap((family) =>
			["-nft", "-legacy", ""].map((variant) => join(folder, `${family}${variant}-restore`)),
		);
		await Promise.all(fakes.map((path) => writeFile(path, script, { mode: 0o755 })));
		const { PATH: path = "" } = process.env;
		const daemon = await services.start([], {
			isReady: false,
			env: { PATH: `${folder}:${path}` },
		});
		const line = await daemon.waitForLog(
			({ level, msg }) => level === "error" && msg.includes("packet rules"),
			{ timeoutMs: START_MS },
		);
		expect(JSON.stringify(line)).toContain("Table does not exist");
		expect((await daemon.get("/readyz")).status).toBe(503);
		expect(await savedRules(node)).toEqual([]);
		await rm(folder, { recursive: true });
		await daemon.ready();
		expect(await ask(10)).toEqual({ ep1: 1, ep2: 1, ep3: 1 });
		await daemon.waitForLog(({ msg }) => msg === "the packet rules are up to date");
	});

	it("SIGHUP reads the configuration again: what can change does, the rest is named (classic 9.7.5)", async () => {
		const file = join(services.folder, "config.conf");
		const config = (verbosity: number, oomScoreAdj: number): string =>
			JSON.stringify({
				apiVersion: "kubeproxy.config.k8s.io/v1alpha1",
				kind: "KubeProxyConfiguration",
				logging: { verbosity },
				oomScoreAdj,
			});
		await writeFile(file, config(0, 1));
		const daemon = startDaemon({
			in: services.lab.node,
			flags: [],
			program: [
				DAEMON_PROGRAM,
				"run",
				"--hostname-override=node1",
				"--conntrack-max-per-core=0",
				`--config=${file}`,
				`--manifests=${join(services.folder, "a.json")}`,
			],
		});
		await daemon.ready();
		await writeFile(file, config(4, 2));
		daemon.signal("SIGHUP");
		expect(await daemon.waitForLog(({ msg }) => msg === "configuration read again")).toMatchObject({
			applied: ["logLevel"],
			needRestart: ["oomScoreAdj"],
		});
		await writeFile(file, "kind: [");
		daemon.signal("SIGHUP");
		await daemon.waitForLog(
			({ level, msg }) => level === "error" && msg.includes("the old one stays"),
		);
		expect(await ask(10)).toEqual({ ep1: 1, ep2: 1, ep3: 1 });
	});

	it("SIGUSR1 and SIGUSR2 turn the connection log up and down; records say who reached whom", async () => {
		const daemon = await services.start(["--log-connections=off"]);
		await ask(10, 1);
		daemon.signal("SIGUSR1");
		await daemon.waitForLog((line) => line["mode"] === "errors");
		await ask(10, 1);
		daemon.signal("SIGUSR1");
		await daemon.waitForLog((line) => line["mode"] === "all");
		expect(daemon.logs.filter(({ msg }) => msg === "connection")).toEqual([]);
		await ask(10, 1);
		const record = await daemon.waitForLog(({ msg }) => msg === "connection");
		expect(record).toMatchObject({
			service: "shop/a:p",
			protocol: "tcp",
			client: expect.stringMatching(/^10\.1\.0\.2:\d+$/),
			endpoint: expect.stringMatching(/^10\.2\.[123]\.2:8080$/),
			bytesIn: 0,
			bytesOut: 4,
			end: "closed",
		});
		expect(record["id"]).toEqual(expect.any(String));
		expect(record["durationMs"]).toEqual(expect.any(Number));
		daemon.signal("SIGUSR2");
		await daemon.waitForLog((line) => line["mode"] === "errors" && line["reason"] === "SIGUSR2");
		daemon.signal("SIGUSR2");
		await daemon.waitForLog((line) => line["mode"] === "off");
	});
});

import { afterEach, beforeEach, describe, expect, test as it } from "vitest";
import { tally } from "../kit/agent.ts";
import { type LabApi, startLabApi } from "../kit/api-lab.ts";
import { type LogLine, startDaemon } from "../kit/daemon-process.ts";
import { aHangingPlugin, execUser, isAlive } from "../kit/exec-plugins.ts";
import { aFolder, kubeconfigFor } from "../kit/kubeconfigs.ts";
import { labProblem } from "../kit/lab.ts";
import {
	clusterIp,
	createServiceLab,
	eventually,
	labService,
	type ServiceLab,
	savedRules,
} from "../kit/service-lab.ts";

describe.skipIf(labProblem() !== undefined)("the daemon on a cluster's API", () => {
	let services: ServiceLab;
	let api: LabApi;

	beforeEach(async () => {
		services = await createServiceLab();
		await services.serveTcp({ mode: "greet", port: 8080 });
		api = await startLabApi(services.lab.node);
		await api.put(...labService({ name: "a", number: 10 }));
	});
	afterEach(async () => {
		await services.close();
	});

	const start = (...flags: string[]) =>
		startDaemon({
			in: services.lab.node,
			flags: [`--master=${api.url}`, "--iptables-min-sync-period=100ms", ...flags],
		});
	const ask = async (number: number, count = 1) =>
		tally(await services.client.tcp({ address: clusterIp(number), port: 80, count }));

	it("serves what it lists, and follows what it watches (classic 9.1.22)", async () => {
		const daemon = start();
		await daemon.ready();
		expect(await ask(10, 3)).toEqual({ ep1: 1, ep2: 1, ep3: 1 });
		await api.put(...labService({ name: "b", number: 11, endpoints: [2] }));
		await eventually(async () => expect(await ask(11)).toEqual({ ep2: 1 }));
		await api.put(...labService({ name: "b", number: 11, endpoints: [3] }).slice(1));
		await eventually(async () => expect(await ask(11)).toEqual({ ep3: 1 }));
		await api.delete("Service", "shop", "b");
		await eventually(async () => expect(await ask(11)).not.toEqual({ ep3: 1 }));
	});

	it("an API that is away: relaying goes on, its age is seen, the first list after it prunes (case 3f, case 3g, classic 9.8.11)", async () => {
		const daemon = start();
		await daemon.ready();
		await api.put(...labService({ name: "gone", number: 12 }));
		await eventually(async () => expect(await ask(12)).not.toEqual({ ECONNREFUSED: 1 }));
		await api.tell("stop");
		await api.delete("Service", "shop", "gone");
		await api.put(...labService({ name: "a", number: 10, endpoints: [2] }));
		await api.tell("compact");
		expect(await ask(10, 3)).toEqual({ ep1: 1, ep2: 1, ep3: 1 });
		await eventually(async () => {
			const { body, status } = await daemon.get("/healthz");
			expect(status).toBe(200);
			expect(JSON.parse(body).sources[0]).toMatchObject({ failing: true, synced: true });
			expect(JSON.parse(body).sources[0].ageSeconds).toBeGreaterThanOrEqual(1);
		});
		const { body } = await daemon.get("/metrics", 10_249);
		expect(body).toMatch(/^kube_userproxy_source_age_seconds\{source=.*\} [1-9]/m);
		await api.tell("start");
		await eventually(async () => expect(await ask(10)).toEqual({ ep2: 1 }), 40_000);
		await eventually(async () => expect(Object.keys(await ask(12))).not.toContain("ep1"));
		// Only now, when the fresh list is in: that the server answers 410 is no recovery.
		await daemon.waitForLog(({ msg }) => /recovered|again/.test(msg), { timeoutMs: 40_000 });
	});

	it("a list of another kind does not pass for an empty cluster", async () => {
		const daemon = start();
		await daemon.ready();
		const always = -1;
		await api.fail({ fault: { status: 422 }, withParameter: "sendInitialEvents", times: always });
		const body = JSON.stringify({ kind: "PodList", apiVersion: "v1", metadata: {}, items: [] });
		await api.fail({ fault: { status: 200, body }, verb: "list", times: always });
		await api.tell("compact");
		await api.tell("cut");
		await daemon.waitForLog((line) => JSON.stringify(line).includes("with a PodList of v1"), {
			timeoutMs: 40_000,
		});
		expect(await ask(10, 3)).toEqual({ ep1: 1, ep2: 1, ep3: 1 });
		const { body: health } = await daemon.get("/healthz");
		expect(JSON.parse(health).sources[0]).toMatchObject({ failing: true, synced: true });
	});

	it("starts before the API is there, and is not ready until it is; a predecessor's rules stay (case 22c)", async () => {
		const first = start();
		await first.ready();
		await first.kill9();
		const rules = await savedRules(services.lab.node);
		expect(rules.length).toBeGreaterThan(0);
		await api.tell("stop");
		const daemon = start();
		await eventually(async () => expect((await daemon.get("/readyz")).status).toBe(503));
		expect((await daemon.get("/livez")).status).toBe(200);
		await daemon.waitForLog(({ level }) => level === "error" || level === "warn");
		expect(await savedRules(services.lab.node)).toEqual(rules);
		await api.tell("start");
		await daemon.ready(40_000);
		expect(await ask(10, 3)).toEqual({ ep1: 1, ep2: 1, ep3: 1 });
	});

	it("a credential plugin that hangs is told of, and killed with its children at the stop", async () => {
		const folder = await aFolder();
		const plugin = aHangingPlugin(folder);
		const kubeconfig = kubeconfigFor(folder, api.url, { user: execUser(plugin.path) });
		const daemon = startDaemon({
			in: services.lab.node,
			flags: [`--kubeconfig=${kubeconfig}`],
			env: { PATH: process.env["PATH"] ?? "" },
		});
		const waiting = ({ msg }: LogLine) => msg === "waiting for the exec credential plugin";
		expect(await daemon.waitForLog(waiting, { timeoutMs: 40_000 })).toMatchObject({
			level: "warn",
			plugin: plugin.path,
		});
		expect((await daemon.get("/readyz")).status).toBe(503);
		const pids = plugin.pids();
		expect(pids.map(isAlive)).toEqual([true, true]);
		expect(await daemon.stop()).toEqual({ code: 0, signal: null });
		await eventually(async () => expect(pids.map(isAlive)).toEqual([false, false]));
	});

	it("--service-proxy-name serves only the Services that carry it (classic 9.8.8)", async () => {
		const [service, slice] = labService({ name: "lens", number: 13, endpoints: [1] });
		const labelled = structuredClone(service) as { metadata: Record<string, unknown> };
		labelled.metadata["labels"] = { "service.kubernetes.io/service-proxy-name": "lens" };
		await api.put(labelled, slice);
		const daemon = start("--service-proxy-name=lens");
		await daemon.ready();
		expect(await ask(13)).toEqual({ ep1: 1 });
		expect(Object.keys(await ask(10))).not.toContain("ep1");
	});

	it("a bad object stops nobody and works once it is corrected (case 8b)", async () => {
		const [service, ...rest] = labService({ name: "b", number: 14, endpoints: [1] });
		const bad = structuredClone(service) as { spec: { ports?: unknown } };
		delete bad.spec.ports;
		await api.put(bad, ...rest);
		const daemon = start();
		await daemon.ready();
		expect(await ask(10, 3)).toEqual({ ep1: 1, ep2: 1, ep3: 1 });
		await daemon.waitForLog((line) => JSON.stringify(line).includes("spec.ports"));
		await api.put(service);
		await eventually(async () => expect(await ask(14)).toEqual({ ep1: 1 }));
	});
});

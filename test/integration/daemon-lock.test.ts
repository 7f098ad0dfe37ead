import { afterEach, beforeEach, describe, expect, test as it } from "vitest";
import { tally } from "../kit/agent.ts";
import { DAEMON_PROGRAM } from "../kit/daemon-process.ts";
import { labProblem } from "../kit/lab.ts";
import {
	clusterIp,
	createServiceLab,
	labService,
	type ServiceLab,
	savedRules,
} from "../kit/service-lab.ts";

/** What a busy machine may take to load the program. */
const START = { timeoutMs: 60_000 };

describe.skipIf(labProblem() !== undefined)("a second daemon on the node", () => {
	let services: ServiceLab;

	beforeEach(async () => {
		services = await createServiceLab();
		await services.serveTcp({ mode: "greet", port: 8080 });
		await services.serveTcp({ mode: "echo", port: 8083 });
		await services.write("a.json", labService({ name: "a", number: 10 }));
		await services.write("e.json", labService({ name: "e", number: 11, targetPort: 8083 }));
	});
	afterEach(async () => {
		await services.close();
	});

	const ask = async () =>
		tally(await services.client.tcp({ address: clusterIp(10), port: 80, count: 3 }));
	const all = { ep1: 1, ep2: 1, ep3: 1 };
	const later = async (flags: readonly string[] = []) =>
		await services.start(flags, { isReady: false });
	const isWaiting = ({ msg }: { msg: string }) =>
		msg === "waiting for another kube-userproxy to end";

	it("ends with status 1 and names the first, which goes on undisturbed (case 32d)", async () => {
		const first = await services.start();
		const rules = await savedRules(services.lab.node);
		const second = await later();
		expect(await second.waitForLog(isWaiting, START)).toMatchObject({ pid: first.pid });
		expect(await second.ended).toEqual({ code: 1, signal: null });
		expect(second.logs.filter(({ level }) => level === "error")).toEqual([
			expect.objectContaining({
				msg: "cannot start",
				error: expect.stringContaining(`another kube-userproxy (pid ${first.pid}) runs on it`),
			}),
		]);
		expect(await savedRules(services.lab.node)).toEqual(rules);
		expect(await ask()).toEqual(all);
	});

	it("that is told to stop while it waits ends with status 0, and touches nothing", async () => {
		await services.start();
		const second = await later();
		await second.waitForLog(isWaiting, START);
		expect(await second.stop()).toEqual({ code: 0, signal: null });
		expect(await ask()).toEqual(all);
	});

	it("takes over from one that is about to end", async () => {
		const first = await services.start(["--drain-timeout=1h"]);
		const held = await services.client.connect({ address: clusterIp(11), port: 80 });
		await held.write("x");
		await held.read(1);
		const stopped = first.stop();
		await first.waitForLog(({ msg }) => msg === "waiting for connections to end");
		const second = await later();
		await second.waitForLog(isWaiting, START);
		await held.finish("end");
		expect(await stopped).toEqual({ code: 0, signal: null });
		await second.ready();
		expect(await ask()).toEqual(all);
	});

	it("starts at once after a kill -9, and where the other keeps no rules", async () => {
		const first = await services.start();
		await first.kill9();
		const bare = ["--rules=none", "--healthz-bind-address=", "--metrics-bind-address="];
		const withoutRules = await services.start(bare);
		const second = await services.start();
		const third = await services.start(bare);
		for (const { logs } of [withoutRules, second, third]) {
			expect(logs.filter(isWaiting)).toEqual([]);
		}
		expect(await ask()).toEqual(all);
	});

	it("is what cleanup warns of", async () => {
		const cleanup = async () =>
			await services.lab.node.exec(process.execPath, [DAEMON_PROGRAM, "cleanup"]);
		const daemon = await services.start();
		expect((await cleanup()).stderr).toContain(
			`a kube-userproxy (pid ${daemon.pid}) runs on this node`,
		);
		await daemon.stop();
		expect((await cleanup()).stderr).toBe("");
	});
});

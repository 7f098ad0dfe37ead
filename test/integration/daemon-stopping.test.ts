import { afterEach, beforeEach, describe, expect, test as it } from "vitest";
import { tally } from "../kit/agent.ts";
import { DAEMON_PROGRAM, type DaemonProcess } from "../kit/daemon-process.ts";
import { createFakeTools, type FakeTools, HANGING, SHAKY_RESTORE } from "../kit/fake-tools.ts";
import { labProblem } from "../kit/lab.ts";
import {
	clusterIp,
	createServiceLab,
	eventually,
	labService,
	type ServiceLab,
	savedRules,
} from "../kit/service-lab.ts";

/** Far above what such a stop takes, far below the limits of the programs that it must not wait for. */
const SOON_MS = 20_000;

describe.skipIf(labProblem() !== undefined)("the daemon's end with programs that fail", () => {
	let services: ServiceLab;
	let tools: FakeTools;

	beforeEach(async () => {
		services = await createServiceLab({ endpoints: 1 });
		tools = await createFakeTools();
		await services.serveTcp({ mode: "greet", port: 8080 });
		await services.serveUdp({ mode: "name", port: 8080 });
		await services.write("a.json", labService({ name: "a", number: 10, endpoints: [1] }));
	});
	afterEach(async () => {
		await services.close();
		await tools[Symbol.asyncDispose]();
	});

	const start = (options: { isReady?: boolean } = {}) =>
		services.start([], { env: tools.env, ...options });
	const ask = async (number: number) =>
		tally(await services.client.tcp({ address: clusterIp(number), port: 80, timeoutMs: 500 }));
	const ofLevel = ({ logs }: DaemonProcess, level: string) =>
		logs.filter((line) => line.level === level).map(({ msg }) => msg);
	const sinceStopping = ({ logs }: DaemonProcess) =>
		logs.slice(logs.findIndex(({ msg }) => msg === "stopping"));

	it("a restore that fails is tried again, to end capture and to remove: status 0, no rule left", async () => {
		await tools.write("restores", "fine");
		await tools.put("iptables-nft-restore", SHAKY_RESTORE);
		const daemon = await start();
		// The first try to end capture is two restores: a refusal is looked at once more at once.
		await tools.write("restores", "busy busy fine busy busy fine");

		expect(await daemon.stop("SIGTERM", SOON_MS)).toEqual({ code: 0, signal: null });

		expect(await savedRules(services.lab.node)).toEqual([]);
		expect(sinceStopping(daemon).map(({ msg }) => msg)).toEqual([
			"stopping",
			"cannot stop capturing new connections, trying again",
			"new connections are captured no more",
			"cannot remove the packet rules, trying again",
			"the packet rules are removed",
			"stopped",
		]);
		expect(ofLevel(daemon, "error")).toEqual([]);
	});

	it("rules that stay are an error with families, reason and remedy, and status 1", async () => {
		await tools.write("restores", "fine");
		await tools.put("iptables-nft-restore", SHAKY_RESTORE);
		const daemon = await start();
		await tools.write("restores", "forbidden");

		expect(await daemon.stop("SIGTERM", SOON_MS)).toEqual({ code: 1, signal: null });

		expect(ofLevel(daemon, "error")).toEqual(["cannot remove the packet rules"]);
		expect(daemon.logs.find(({ level }) => level === "error")).toMatchObject({
			families: ["ipv4"],
			error: expect.stringContaining("you must be root"),
			remedy: "kube-userproxy cleanup",
		});
		expect(await savedRules(services.lab.node)).not.toEqual([]);
		await services.lab.node.exec(process.execPath, [DAEMON_PROGRAM, "cleanup"]);
		expect(await savedRules(services.lab.node)).toEqual([]);
	});

	it("a conntrack that hangs holds up neither readiness, nor newer rules, nor the end", async () => {
		await tools.put("conntrack", HANGING);
		const udp = { protocol: "UDP", endpoints: [1] } as const;
		await services.write("u.json", labService({ name: "u", number: 12, ...udp }));
		const daemon = await start();
		await eventually(async () => expect(await tools.read("calls")).toContain("-L -f ipv4"));
		await services.write("v.json", labService({ name: "v", number: 13, ...udp }));
		await services.write("b.json", labService({ name: "b", number: 11, endpoints: [1] }));
		await eventually(async () => expect(await ask(11)).toEqual({ ep1: 1 }));

		expect(await daemon.stop("SIGTERM", SOON_MS)).toEqual({ code: 0, signal: null });

		expect(await savedRules(services.lab.node)).toEqual([]);
		expect(sinceStopping(daemon).map(({ msg }) => msg)).not.toContain("ready");
		expect(ofLevel(daemon, "error")).toEqual([]);
		// The one that was ended for the stop is no news; the last one is.
		expect(sinceStopping(daemon).filter(({ level }) => level === "warn")).toMatchObject([
			{ msg: expect.stringContaining("conntrack"), error: "conntrack did not end in time" },
		]);
	});

	it("a listing that shows nothing piles no jumps up, and keeps none from being removed (case 32b)", async () => {
		await tools.put("iptables-nft-save", '[ -e "$folder/lies" ] && exit 0; exec "$real" "$@"');
		const daemon = await start();
		const before = await savedRules(services.lab.node);
		await tools.write("lies", "");
		const failing = ({ msg }: { msg: string }) =>
			msg.startsWith("cannot bring the packet rules up");
		daemon.signal("SIGHUP");
		expect((await daemon.waitForLog(failing))["error"]).toContain("does not list what is there");
		// Each further try has the jumps twice for a moment. What piles up would stay.
		await eventually(async () => {
			const meanwhile = await savedRules(services.lab.node);
			expect(meanwhile).toHaveLength(before.length);
			expect(new Set(meanwhile)).toEqual(new Set(before));
		});

		expect(await daemon.stop("SIGTERM", SOON_MS)).toEqual({ code: 0, signal: null });

		expect(await savedRules(services.lab.node)).toEqual([]);
	});

	it("a stop ends a start that a listing holds up, and removes what a predecessor left", async () => {
		const first = await start();
		await first.kill9();
		await tools.put("iptables-nft-save", `[ -e "$folder/hang" ] || exec "$real" "$@"${HANGING}`);
		await tools.write("hang", "");
		const daemon = await start({ isReady: false });
		await eventually(async () => expect(await tools.read("calls")).not.toBe(""));
		await tools.remove("hang");

		expect(await daemon.stop("SIGTERM", SOON_MS)).toEqual({ code: 0, signal: null });

		expect(await savedRules(services.lab.node)).toEqual([]);
		expect([...ofLevel(daemon, "error"), ...ofLevel(daemon, "warn")]).toEqual([]);
	});
});

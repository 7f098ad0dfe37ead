import { afterEach, beforeEach, describe, expect, test as it } from "vitest";
import { type RemoteConnection, tally } from "../kit/agent.ts";
import type { DaemonProcess } from "../kit/daemon-process.ts";
import { labProblem } from "../kit/lab.ts";
import type { RELAY_ENGINES } from "../kit/relay-engines.ts";
import {
	clusterIp,
	createServiceLab,
	eventually,
	labService,
	type ServiceLab,
} from "../kit/service-lab.ts";

const LIMIT = 256;

/**
 * Connections of two descriptors that 256 are enough for: 64 are reserved, of the rest an eighth is to wait with, and
 * there are 4 listeners. Two workers have 7 for themselves, and each a socket of each listener.
 */
const ENGINES = [
	{ relay: "stream", room: 82, flags: ["--relay=stream"] },
	{ relay: "syscall", room: 73, flags: ["--relay=syscall", "--workers=2"] },
] as const satisfies readonly { relay: (typeof RELAY_ENGINES)[number]; [key: string]: unknown }[];
const [, SYSCALL] = ENGINES;

/** Lines for people, without those of single connections. */
function linesOf(daemon: DaemonProcess, msg: RegExp): string[] {
	return daemon.logs.filter((line) => msg.test(line.msg)).map((line) => JSON.stringify(line));
}

describe.skipIf(labProblem() !== undefined)("the daemon with few file descriptors", () => {
	let services: ServiceLab;

	beforeEach(async () => {
		services = await createServiceLab({ endpoints: 2 });
		const both = { endpoints: [1, 2] };
		await services.write("services.yaml", [
			...labService({ name: "greet", number: 10, ...both }),
			...labService({ name: "echo", number: 11, targetPort: 8083, ...both }),
			...labService({ name: "dns", number: 53, protocol: "UDP", port: 53, ...both }),
			...labService({ name: "deaf", number: 54, protocol: "UDP", targetPort: 8084, ...both }),
		]);
		await services.serveTcp({ mode: "greet", port: 8080 });
		await services.serveTcp({ mode: "echo", port: 8083 });
		await services.serveUdp({ mode: "name", port: 8080 });
		await services.serveUdp({ mode: "sink", port: 8084 });
	});
	afterEach(async () => {
		await services.close();
	});

	const connect = (count: number): Promise<RemoteConnection[]> =>
		Promise.all(
			Array.from({ length: count }, () =>
				services.client.connect({ address: clusterIp(11), port: 80 }),
			),
		);

	/** How many of the connections get their bytes back within the time. */
	async function relaying(connections: readonly RemoteConnection[], timeoutMs = 5_000) {
		const answered = await Promise.all(
			connections.map(async (connection) => {
				const { bytes } = await connection.state();
				await connection.write("ping", timeoutMs);
				return (await connection.read(bytes + 4, timeoutMs)).bytes >= bytes + 4;
			}),
		);
		return answered.filter(Boolean).length;
	}

	const finish = (connections: readonly RemoteConnection[]) =>
		Promise.all(connections.map((connection) => connection.finish("destroy")));

	/** Nothing that clients have brought is left. */
	const isBackTo = (daemon: DaemonProcess, descriptors: number) =>
		eventually(async () => expect(daemon.openDescriptors()).toBeLessThanOrEqual(descriptors));

	it.each(ENGINES)(
		"none left: what is relayed goes on, newcomers wait their turn, the rest is refused ($relay) (classic 9.1.35)",
		async ({ flags, room }) => {
			const daemon = await services.start(flags, { descriptorLimit: LIMIT });
			await daemon.get("/readyz");
			const before = daemon.openDescriptors();

			const first = await connect(room);
			expect(await relaying(first)).toBe(room);
			expect(await daemon.metric("kube_userproxy_accept_paused")).toBe(0);

			const waiting = await connect(20);
			expect(await relaying(waiting, 300)).toBe(0);
			expect(await relaying(first)).toBe(room);
			expect(await daemon.metric("kube_userproxy_accept_paused")).toBe(1);

			const tooMany = await services.client.tcp({
				address: clusterIp(10),
				port: 80,
				count: 300,
				concurrency: 50,
				timeoutMs: 1_500,
			});
			expect(tooMany.filter(({ error }) => error === undefined)).toEqual([]);
			expect(await relaying(first)).toBe(room);
			expect(await daemon.metric("kube_userproxy_overload_refusals_total")).toBeGreaterThan(200);
			expect((await daemon.get("/readyz")).status).toBe(200);

			await finish(first.slice(0, 30));
			expect(await relaying([...waiting, ...first.slice(30)])).toBe(20 + room - 30);
			await eventually(async () =>
				expect(await daemon.metric("kube_userproxy_accept_paused")).toBe(0),
			);
			const results = await services.client.tcp({ address: clusterIp(10), port: 80, count: 50 });
			expect(tally(results)).toEqual({ ep1: 25, ep2: 25 });

			await finish([...waiting, ...first.slice(30)]);
			await isBackTo(daemon, before);
			// Each all-clear comes when its own fault has been quiet for a while, in either order.
			for (const allClear of ["accepting resumed", "no connection refused any more"]) {
				// oxlint-disable-next-line no-await-in-loop -- a line that is there already is found as well
				await daemon.waitForLog(({ msg }) => msg === allClear);
			}
			expect(linesOf(daemon, /^accepting paused/)).toHaveLength(1);
			expect(linesOf(daemon, /^accepting resumed/)).toHaveLength(1);
			expect(linesOf(daemon, /^connections refused/)).toHaveLength(1);
			expect(linesOf(daemon, /^no connection refused/)).toHaveLength(1);
		},
	);

	it("a crowd on the limit for seconds: a handful of log lines, and nothing left over", async () => {
		const flags = [...SYSCALL.flags, "--log-connections=errors"];
		const daemon = await services.start(flags, { descriptorLimit: LIMIT });
		await daemon.get("/readyz");
		const before = daemon.openDescriptors();
		const held = await connect(SYSCALL.room - 2);
		const from = daemon.logs.length;
		// Two or three at a time get through, the others wait: over and under the limit all the time.
		const results = await services.client.tcp({
			address: clusterIp(10),
			port: 80,
			count: 6_000,
			concurrency: 20,
			timeoutMs: 5_000,
		});
		expect(results.filter(({ error }) => error !== undefined)).toEqual([]);
		const said = daemon.logs.slice(from).filter(({ level }) => level !== "debug");
		expect(said.filter(({ msg }) => msg.startsWith("accepting paused"))).not.toEqual([]);
		expect(said.length).toBeLessThanOrEqual(8);
		expect(await relaying(held)).toBe(held.length);
		await finish(held);
		await isBackTo(daemon, before);
	});

	it("HTTP clients hold what they can: few descriptors go, and what is relayed has its own", async () => {
		const daemon = await services.start(SYSCALL.flags, { descriptorLimit: LIMIT });
		await daemon.get("/readyz");
		const before = daemon.openDescriptors();
		const local = await services.lab.node.agent();
		for (const port of [10_249, 10_256]) {
			const address = "127.0.0.1";
			// oxlint-disable-next-line no-await-in-loop -- one crowd after the other
			await Promise.all(Array.from({ length: 100 }, () => local.connect({ address, port })));
		}
		await eventually(async () => expect(daemon.openDescriptors()).toBeLessThan(before + 24));
		const connections = await connect(SYSCALL.room);
		expect(await relaying(connections)).toBe(SYSCALL.room);
		expect((await daemon.get("/readyz")).status).toBe(200);
		expect(await daemon.metric("kube_userproxy_accept_paused")).toBe(0);
		await finish(connections);
	});

	it.each(ENGINES)(
		"the system itself gives none: few lines, no end, and all is well afterwards ($relay) (case 39d)",
		async ({ flags }) => {
			const daemon = await services.start([
				...flags,
				"--iptables-sync-period=1s",
				"--udp-timeout=1s",
				"--log-connections=errors",
			]);
			await daemon.get("/readyz");
			const before = daemon.openDescriptors();
			const held = await connect(10);
			expect(await relaying(held)).toBe(10);
			const from = daemon.logs.length;
			// Behind the back of the daemon's own budget, as a limit of the whole system would be reached.
			const limit = daemon.openDescriptors() + 1;
			const { node } = services.lab;
			await node.exec("prlimit", ["--pid", `${daemon.pid}`, `--nofile=${limit}:20000`]);
			const crowd = async (count: number) =>
				await services.client.tcp({
					address: clusterIp(10),
					port: 80,
					count,
					concurrency: 20,
					timeoutMs: 5_000,
				});
			// The kernel hands out none: libuv takes such a client with a spare one and hangs up, workers let it wait.
			const { ep1 = 0, ep2 = 0 } = tally(await crowd(40));
			const isTold = linesOf(daemon, /^(?:accepting|dialing) fails/).length > 0;
			expect(ep1 + ep2 < 40 || isTold).toBe(true);
			await services.client.udp({
				address: clusterIp(53),
				port: 53,
				count: 500,
				socketEach: true,
				timeoutMs: 5,
			});
			await daemon.waitForLog(
				({ level, msg }) => level === "error" && msg.includes("packet rules"),
			);
			expect(await relaying(held)).toBe(10);
			await node.exec("prlimit", ["--pid", `${daemon.pid}`, "--nofile=20000:20000"]);

			await eventually(async () => expect(tally(await crowd(20))).toEqual({ ep1: 10, ep2: 10 }));
			const answers = await services.client.udp({ address: clusterIp(53), port: 53, count: 10 });
			expect(answers.filter(({ error }) => error !== undefined)).toEqual([]);
			await daemon.waitForLog(({ msg }) => msg === "the packet rules are up to date", {
				timeoutMs: 20_000,
			});
			const said = daemon.logs
				.slice(from)
				.filter(({ level, msg }) => level !== "debug" && msg !== "connection");
			expect(said.length).toBeLessThanOrEqual(20);
			await finish(held);
			await isBackTo(daemon, before);
		},
	);

	it("a burst of DNS queries from thousands of ports: all answered, and nothing left over (case 14a)", async () => {
		const daemon = await services.start(["--udp-timeout=1s"], { descriptorLimit: 1024 });
		await daemon.get("/readyz");
		const before = daemon.openDescriptors();
		const burst = await Promise.all(
			Array.from({ length: 8 }, () =>
				services.client.udp({
					address: clusterIp(53),
					port: 53,
					count: 300,
					socketEach: true,
					pauseMs: 1,
					timeoutMs: 2_000,
				}),
			),
		);
		expect(Object.keys(tally(burst.flat()))).toEqual(["ep1", "ep2"]);
		// The same with an endpoint that never answers: flows that have to make room.
		const unheard = await Promise.all(
			Array.from({ length: 4 }, () =>
				services.client.udp({
					address: clusterIp(54),
					port: 80,
					count: 300,
					socketEach: true,
					timeoutMs: 1,
				}),
			),
		);
		expect(tally(unheard.flat())).toEqual({ TIMEOUT: 1_200 });
		// Half of what is relayed with is TCP's, whatever UDP does.
		expect(daemon.openDescriptors()).toBeLessThan(before + 450);

		const [tcp, one] = await Promise.all([
			services.client.tcp({ address: clusterIp(10), port: 80, count: 20 }),
			services.client.udp({ address: clusterIp(53), port: 53, count: 100, socketEach: true }),
		]);
		expect(tally(tcp)).toEqual({ ep1: 10, ep2: 10 });
		expect(tally(one)).toEqual({ ep1: 50, ep2: 50 });
		await eventually(async () => expect(await daemon.metric("kube_userproxy_udp_flows")).toBe(0));
		await isBackTo(daemon, before);
		expect(await daemon.metric("kube_userproxy_dropped_datagrams_total")).toBe(0);
		expect(linesOf(daemon, /^UDP flows are ended to make room/)).toHaveLength(1);
	});
});

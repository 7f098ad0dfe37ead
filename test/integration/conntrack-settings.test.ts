import { afterEach, beforeEach, describe, expect, test as it } from "vitest";
import { tally } from "../kit/agent.ts";
import { DAEMON_PROGRAM } from "../kit/daemon-process.ts";
import { hostSettings } from "../kit/host-settings.ts";
import { labProblem } from "../kit/lab.ts";
import { clusterIp, createServiceLab, labService, type ServiceLab } from "../kit/service-lab.ts";
import { CLOSE_WAIT, ESTABLISHED, MAX } from "../kit/setting-files.ts";

const UDP = "/proc/sys/net/netfilter/nf_conntrack_udp_timeout";

describe.skipIf(labProblem() !== undefined)("the kernel's connection tracking", () => {
	let services: ServiceLab;
	let before: readonly string[];

	beforeEach(async () => {
		before = hostSettings();
		services = await createServiceLab();
		await services.serveTcp({ mode: "greet", port: 8080 });
		await services.write("a.json", labService({ name: "a", number: 10 }));
	});
	afterEach(async () => {
		await services.close();
		expect(hostSettings()).toEqual(before);
	});

	const readValue = async (path: string) =>
		Number((await services.lab.node.exec("cat", [path])).stdout);

	it("gets the timeouts of its own network namespace, said once with from and to (classic 9.8.13)", async () => {
		const daemon = await services.start([
			"--conntrack-tcp-timeout-established=2h",
			"--conntrack-tcp-timeout-close-wait=0",
			"--conntrack-udp-timeout=41s",
		]);
		const line = await daemon.waitForLog(
			({ msg }) => msg === "connection tracking of the kernel is set",
		);
		expect(line).toMatchObject({
			level: "info",
			changed: [
				{ setting: "nf_conntrack_tcp_timeout_established", from: 432_000, to: 7200 },
				{ setting: "nf_conntrack_udp_timeout", from: 30, to: 41 },
			],
		});
		expect(await readValue(ESTABLISHED)).toBe(7200);
		expect(await readValue(UDP)).toBe(41);
		expect(await readValue(CLOSE_WAIT)).toBe(60);
		expect(daemon.logs.filter(({ msg }) => msg.includes("cannot be set as wanted"))).toEqual([]);
		await daemon.stop();

		const second = await services.start([
			"--conntrack-tcp-timeout-established=2h",
			"--conntrack-tcp-timeout-close-wait=0",
			"--conntrack-udp-timeout=41s",
		]);
		expect(second.logs.filter(({ msg }) => msg.includes("connection tracking"))).toEqual([]);
	});

	it("is left alone with --rules none, as all else in the kernel", async () => {
		const daemon = await services.start(["--rules=none"]);
		expect(daemon.logs.filter(({ msg }) => msg.includes("connection tracking"))).toEqual([]);
		expect(await readValue(ESTABLISHED)).toBe(432_000);
	});

	it("keeps its size where that is the whole host's: one warning, and the daemon serves", async () => {
		const daemon = await services.start([
			"--conntrack-max-per-core=1",
			"--conntrack-min=2000000000",
		]);
		const warnings = daemon.logs.filter(({ msg }) => msg.includes("cannot be set as wanted"));
		expect(warnings).toEqual([
			expect.objectContaining({
				level: "warn",
				settings: [
					{
						setting: "nf_conntrack_max",
						wanted: 2_000_000_000,
						found: await readValue(MAX),
						problem: "EACCES",
					},
				],
				remedy: expect.stringContaining("--conntrack-max-per-core 0"),
			}),
		]);
		const answers = await services.client.tcp({ address: clusterIp(10), port: 80, count: 3 });
		expect(tally(answers)).toEqual({ ep1: 1, ep2: 1, ep3: 1 });
	});

	it("is looked at by check, which changes nothing", async () => {
		const { stdout } = await services.lab.node.exec(process.execPath, [
			DAEMON_PROGRAM,
			"check",
			`--manifests=${services.folder}`,
			"--hostname-override=node1",
			"--conntrack-min=2000000000",
		]);
		expect(stdout).toContain(
			"run sets nf_conntrack_tcp_timeout_established from 432000 to 86400, nf_conntrack_tcp_timeout_close_wait from 60 to 3600",
		);
		expect(stdout).toMatch(
			/! this process may not set nf_conntrack_max \(wanted 2000000000, found \d+, EACCES\)\n {4}→ set them on the host/,
		);
		expect(await readValue(ESTABLISHED)).toBe(432_000);
	});
});

import { expect, test as it } from "vitest";
import { adjustConntrack } from "../../../src/daemon/adjust-conntrack.ts";
import { ESTABLISHED, FakeSettingFiles, MAX } from "../../kit/setting-files.ts";
import { configOf, inputs } from "../config/inputs.ts";
import { aCapturedLog } from "../observe/captured-log.ts";

const { conntrack } = configOf(inputs());

it("adjustConntrack() says at info what it changed, from what to what", () => {
	const { log, lines } = aCapturedLog();
	adjustConntrack(conntrack, log, { cpuCount: 8, files: new FakeSettingFiles() });
	expect(lines).toEqual([
		{
			level: "info",
			message: "connection tracking of the kernel is set",
			fields: {
				changed: [
					{ setting: "nf_conntrack_max", from: 65_536, to: 262_144 },
					{ setting: "nf_conntrack hashsize", from: 16_384, to: 65_536 },
					{ setting: "nf_conntrack_tcp_timeout_established", from: 432_000, to: 86_400 },
					{ setting: "nf_conntrack_tcp_timeout_close_wait", from: 60, to: 3600 },
				],
			},
		},
	]);
});

it("adjustConntrack() warns in one line of all that cannot be set, and how to live with it", () => {
	const { log, lines } = aCapturedLog();
	const files = new FakeSettingFiles();
	files.locked.set(MAX, "EROFS");
	files.locked.set(ESTABLISHED, "EROFS");
	adjustConntrack({ ...conntrack, tcpCloseWaitS: 0 }, log, { cpuCount: 2, files });
	expect(lines).toEqual([
		{
			level: "warn",
			message: "connection tracking of the kernel cannot be set as wanted",
			fields: {
				settings: [
					{ setting: "nf_conntrack_max", wanted: 131_072, found: 65_536, problem: "EROFS" },
					{
						setting: "nf_conntrack_tcp_timeout_established",
						wanted: 86_400,
						found: 432_000,
						problem: "EROFS",
					},
				],
				remedy:
					"set them on the host, or leave them alone: --conntrack-max-per-core 0 --conntrack-tcp-timeout-established 0",
			},
		},
	]);
});

it("adjustConntrack() says nothing where all is as wanted", () => {
	const { log, lines } = aCapturedLog();
	const host = { cpuCount: 2, files: new FakeSettingFiles() };
	adjustConntrack(conntrack, log, host);
	adjustConntrack(conntrack, log, host);
	expect(lines).toHaveLength(1);
});

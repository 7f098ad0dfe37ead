import { spawnSync } from "node:child_process";
import {
	cpSync,
	mkdirSync,
	mkdtempSync,
	readdirSync,
	readFileSync,
	rmSync,
	statSync,
	writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test as it } from "vitest";
import { parseDuration } from "../../../src/config/duration.ts";
import { FLAGS } from "../../../src/config/flags.ts";
import { STOP_MARGIN_MS } from "../../../src/daemon/stop-serving.ts";

const UNITS = fileURLToPath(new URL("../../../systemd/", import.meta.url));
const UNIT = join(UNITS, "kube-userproxy.service");
const DROP_IN = "kube-userproxy.service.d/10-only-without-ipvs.conf";

const hasAnalyze = spawnSync("systemd-analyze", ["--version"]).status === 0;

/** All values of each key, in order. */
function settingsOf(path: string): ReadonlyMap<string, readonly string[]> {
	const settings = new Map<string, string[]>();
	for (const line of readFileSync(path, "utf8").split("\n")) {
		const [, key, value] = /^([A-Za-z]+)=(.*)$/.exec(line) ?? [];
		if (key === undefined || value === undefined) continue;
		settings.set(key, [...(settings.get(key) ?? []), value]);
	}
	return settings;
}

function setting(key: string): string {
	return settingsOf(UNIT).get(key)?.join(" ") ?? "";
}

describe("kube-userproxy.service", () => {
	it("takes only the two capabilities that packet rules need", () => {
		expect(setting("CapabilityBoundingSet")).toBe("CAP_NET_ADMIN CAP_NET_RAW");
		expect(setting("AmbientCapabilities")).toBe("CAP_NET_ADMIN CAP_NET_RAW");
	});

	it("does not start Node with --disable-sigusr1, which blocks the connection log's signal", () => {
		expect(setting("ExecStart")).toMatch(/\/node \S+\/dist\/main\.js run /);
	});

	it("takes the flags from the file that the README names", () => {
		expect(setting("EnvironmentFile")).toBe("-/etc/default/kube-userproxy");
		expect(setting("ExecStart").endsWith(" run $KUBE_USERPROXY_FLAGS")).toBe(true);
	});

	it("is told by a child that it is ready, and is restarted without a limit (case 39h)", () => {
		expect([setting("Type"), setting("NotifyAccess")]).toEqual(["notify", "all"]);
		expect([setting("Restart"), setting("StartLimitIntervalSec")]).toEqual(["always", "0"]);
		expect(Number(setting("WatchdogSec"))).toBeGreaterThan(60);
	});

	it("waits longer for a stop than the longest one takes with the default drain timeout (case 39a)", () => {
		const drainMs = parseDuration(FLAGS["drain-timeout"].default);
		// After the stop: the log's last lines, and what keeps the process from ending.
		const endMs = 2_000 + 5_000;
		expect(Number(setting("TimeoutStopSec")) * 1_000).toBeGreaterThan(
			(drainMs ?? Number.NaN) + STOP_MARGIN_MS + endMs,
		);
	});

	it("may write the lock of iptables and, of the kernel's settings, connection tracking alone", () => {
		expect(setting("ProtectSystem")).toBe("strict");
		expect(setting("ProtectKernelTunables")).toBe("yes");
		expect(settingsOf(UNIT).get("ReadWritePaths")).toEqual([
			"-/run/xtables.lock",
			"-/proc/sys/net/netfilter -/sys/module/nf_conntrack/parameters",
		]);
	});

	it("sees to it that what it may write exists before the sandbox is built", () => {
		expect(settingsOf(UNIT).get("ExecStartPre")).toEqual([
			"-+/usr/bin/touch /run/xtables.lock",
			"-+/usr/sbin/modprobe nf_conntrack",
		]);
	});

	it("has the folder of the lock that the daemon takes, for root alone, and leaves it there", () => {
		const lock = readFileSync(new URL("../../../src/daemon/node-lock.ts", import.meta.url), "utf8");
		expect(lock).toContain(`"/run/${setting("RuntimeDirectory")}"`);
		expect(setting("RuntimeDirectoryMode")).toBe("0700");
		expect(setting("RuntimeDirectoryPreserve")).toBe("yes");
	});

	it("allows what V8 and the packet rules cannot do without", () => {
		expect(settingsOf(UNIT).has("MemoryDenyWriteExecute")).toBe(false);
		expect(settingsOf(UNIT).has("PrivateNetwork")).toBe(false);
		expect(setting("RestrictAddressFamilies").split(" ").toSorted()).toEqual([
			"AF_INET",
			"AF_INET6",
			"AF_NETLINK",
			"AF_UNIX",
		]);
	});

	it("lets as many lines through as the connection log may write", () => {
		const perSecond =
			Number(setting("LogRateLimitBurst")) /
			Number.parseInt(setting("LogRateLimitIntervalSec"), 10);
		expect(perSecond).toBeGreaterThan(1_000);
	});
});

describe.skipIf(!hasAnalyze)("systemd-analyze", () => {
	let folder = "";
	beforeEach(() => {
		folder = mkdtempSync(join(tmpdir(), "unit-file-"));
	});
	afterEach(() => {
		rmSync(folder, { recursive: true });
	});

	/** The unit and its drop-in with the program in `folder`, where every program that they name exists. */
	function anInstallation(change: (text: string) => string = (text) => text): string {
		const program = join(folder, "opt");
		mkdirSync(join(program, "bin"), { recursive: true });
		writeFileSync(join(program, "bin/node"), "#!/bin/sh\n", { mode: 0o755 });
		mkdirSync(join(program, "systemd"));
		cpSync(join(UNITS, "ipvs-missing"), join(program, "systemd/ipvs-missing"));
		mkdirSync(join(folder, "units/kube-userproxy.service.d"), { recursive: true });
		for (const file of ["kube-userproxy.service", DROP_IN]) {
			const text = readFileSync(join(UNITS, file), "utf8");
			writeFileSync(
				join(folder, "units", file),
				change(text.replaceAll("/opt/kube-userproxy", program)),
			);
		}
		return join(folder, "units/kube-userproxy.service");
	}

	function verify(unit: string): { readonly status: number | null; readonly said: string } {
		const { status, stdout, stderr } = spawnSync(
			"systemd-analyze",
			["verify", "--man=no", "--generators=no", unit],
			{ encoding: "utf8" },
		);
		return { status, said: stdout + stderr };
	}

	it("verify finds nothing wrong with the unit and its drop-in", () => {
		expect(verify(anInstallation())).toEqual({ status: 0, said: "" });
	});

	it("verify would find a setting that does not exist, and a program that is not there", () => {
		const misspelt = anInstallation((text) => text.replace("RestrictRealtime", "RestrictRealtme"));
		expect(verify(misspelt).said).toContain("RestrictRealtme");
		rmSync(join(folder, "opt/systemd/ipvs-missing"));
		expect(verify(misspelt)).toMatchObject({ status: 1 });
	});

	it("security finds an exposure of 3.0 or better", () => {
		const { status, stdout } = spawnSync(
			"systemd-analyze",
			["security", "--offline=true", "--threshold=30", "--no-pager", UNIT],
			{ encoding: "utf8" },
		);
		expect(stdout).toContain("Overall exposure level");
		expect(status).toBe(0);
	});
});

describe("systemd/", () => {
	it("holds the unit, the drop-in and its program, which is executable", () => {
		expect(readdirSync(UNITS).toSorted()).toEqual([
			"ipvs-missing",
			"kube-userproxy.service",
			"kube-userproxy.service.d",
		]);
		expect(statSync(join(UNITS, "ipvs-missing")).mode & 0o111).toBe(0o111);
		expect(readFileSync(join(UNITS, DROP_IN), "utf8")).toMatch(
			/^ExecCondition=\+\/opt\/kube-userproxy\/systemd\/ipvs-missing$/m,
		);
	});
});

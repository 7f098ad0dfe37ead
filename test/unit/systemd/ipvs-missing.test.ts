import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test as it } from "vitest";

const SCRIPT = fileURLToPath(new URL("../../../systemd/ipvs-missing", import.meta.url));

let folder = "";
beforeEach(() => {
	folder = mkdtempSync(join(tmpdir(), "ipvs-missing-"));
	mkdirSync(join(folder, "bin"));
	mkdirSync(join(folder, "proc/net"), { recursive: true });
	mkdirSync(join(folder, "proc/sys/kernel"), { recursive: true });
});
afterEach(() => {
	rmSync(folder, { recursive: true });
});

/** What ExecCondition= makes of the answer. */
function decision(): "start" | "skip" | "fail" {
	const { status } = spawnSync(SCRIPT, {
		env: { PATH: `${join(folder, "bin")}:/usr/bin:/bin`, IPVS_MISSING_PROC: join(folder, "proc") },
	});
	if (status === 0) return "start";
	return status !== null && status < 255 ? "skip" : "fail";
}

/** @param script what modprobe does. */
function modprobe(script: string): void {
	writeFileSync(join(folder, "bin/modprobe"), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
}

describe("ipvs-missing", () => {
	it("skips where the kernel has IPVS", () => {
		modprobe("exit 1");
		writeFileSync(join(folder, "proc/net/ip_vs"), "IP Virtual Server version 1.2.1\n");
		expect(decision()).toBe("skip");
	});

	it("skips where the module can be loaded, without loading it", () => {
		modprobe('[ "$1" = --dry-run ] || exit 1; echo "insmod /lib/modules/6.1/ip_vs.ko "');
		expect(decision()).toBe("skip");
	});

	it("starts where there is no such module", () => {
		modprobe('echo "FATAL: Module ip_vs not found" >&2; exit 1');
		expect(decision()).toBe("start");
	});

	it.each(["install /bin/false ", "insmod /lib/nf_conntrack.ko \ninstall /bin/true "])(
		"starts where loading it is overridden: %j",
		(plan) => {
			modprobe(`cat <<'EOF'\n${plan}\nEOF`);
			expect(decision()).toBe("start");
		},
	);

	it("starts where no module may be loaded any more", () => {
		modprobe('echo "insmod /lib/modules/6.1/ip_vs.ko "');
		writeFileSync(join(folder, "proc/sys/kernel/modules_disabled"), "1\n");
		expect(decision()).toBe("start");
		writeFileSync(join(folder, "proc/sys/kernel/modules_disabled"), "0\n");
		expect(decision()).toBe("skip");
	});

	it("never answers with what ExecCondition takes for a failure", () => {
		modprobe("kill -9 $$");
		expect(decision()).toBe("start");
	});
});

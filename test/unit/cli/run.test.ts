import { fileURLToPath } from "node:url";
import { describe, expect, test as it } from "vitest";
import { type FakeHost, fakeHost, run } from "./fake-host.ts";

/** Starts `run` and waits until its daemon is there; `ended` is the exit status. */
async function start(line: string, host: FakeHost) {
	const ended = run(line, host).then(({ status }) => status);
	await expect.poll(() => host.started(), { timeout: 5000, interval: 5 }).toBeDefined();
	// The listeners are there one turn later.
	await Promise.resolve();
	return ended;
}

describe("run", () => {
	it("starts the daemon with what the flags say and ends with 0 when it has stopped", async () => {
		const host = fakeHost();
		const line =
			"run --manifests /a --manifests=/b --oom-score-adj -5 -v=4 --bind-address-hard-fail";
		host.endDaemon();
		const { status, stdout, stderr } = await run(line, host);
		expect({ status, stdout, stderr }).toEqual({ status: 0, stdout: "", stderr: "" });
		expect(host.started()?.config).toMatchObject({
			manifests: ["/a", "/b"],
			oomScoreAdj: -5,
			logLevel: "debug",
			bindAddressHardFail: true,
			nodeName: "node1",
		});
		expect(host.started()?.options.version).toBe("1.2.3");
	});

	it("leaves at once then, with the same status: nothing that is left over may hold up a stop", async () => {
		const host = fakeHost();
		host.endDaemon();
		await run("run --manifests /m", host);
		expect(host.exits).toEqual([0]);
		const failing = fakeHost();
		failing.endDaemon(new Error("boom"));
		await run("run --manifests /m", failing);
		expect(failing.exits).toEqual([1]);
	});

	it.each([
		["-v4", "debug"],
		["-v 2", "info"],
		["--v=5", "debug"],
		["--bind-address-hard-fail=false -v=0", "info"],
	])("takes %s as kube-proxy does", async (flags, level) => {
		const host = fakeHost();
		host.endDaemon();
		expect((await run(`run --manifests /m ${flags}`, host)).status).toBe(0);
		expect(host.started()?.config).toMatchObject({ logLevel: level, bindAddressHardFail: false });
	});

	it("hands signals to the daemon", async () => {
		const host = fakeHost();
		const ended = start("run --manifests /m", host);
		await expect.poll(() => host.started()).toBeDefined();
		await new Promise(setImmediate);
		for (const name of ["SIGHUP", "SIGUSR1", "SIGUSR2", "SIGTERM", "SIGINT"] as const) {
			host.raise(name);
		}
		expect(host.events).toEqual(["reload", "more", "fewer", "stop SIGTERM", "stop SIGINT"]);
		host.endDaemon();
		expect(await ended).toBe(0);
	});

	it("a stop that leaves packet rules ends with 1, and the daemon has said why", async () => {
		const host = fakeHost();
		host.endDaemonWithRules();
		expect((await run("run --manifests /m", host)).status).toBe(1);
		expect(host.events).toEqual([]);
	});

	it("a daemon that fails is logged and ends with 1", async () => {
		const host = fakeHost();
		host.endDaemon(new Error("boom"));
		expect((await run("run --manifests /m", host)).status).toBe(1);
		expect(host.events).toEqual(["fatal boom"]);
	});

	it.each(["uncaughtException", "unhandledRejection"] as const)(
		"%s is logged and ends the process at once with 1 (case 39e)",
		async (name) => {
			const host = fakeHost();
			const ended = start("run --manifests /m", host);
			await expect.poll(() => host.started()).toBeDefined();
			await new Promise(setImmediate);
			host.raise(name, new Error("bug"));
			expect(host.events).toEqual(["fatal bug"]);
			expect(host.exits).toEqual([1]);
			host.endDaemon();
			await ended;
		},
	);

	it("reads the configuration anew when the daemon asks", async () => {
		const env: Record<string, string> = { NODE_NAME: "a" };
		const host = fakeHost({}, { env });
		host.endDaemon();
		await run("run --manifests /m", host);
		env["NODE_NAME"] = "b";
		expect(host.started()?.options.reloadConfig()).toMatchObject({ config: { nodeName: "b" } });
		env["NODE_NAME"] = "not a name";
		expect(host.started()?.options.reloadConfig()).toEqual({
			problems: [expect.stringContaining("NODE_NAME")],
		});
	});

	it("a bad configuration ends with 2", async () => {
		const host = fakeHost();
		const { status, stderr } = await run("run --config /nonexistent.yaml --manifests /m", host);
		expect(status).toBe(2);
		expect(stderr).toMatch(/^kube-userproxy: --config: cannot read \/nonexistent.yaml: ENOENT/);
		expect(host.started()).toBeUndefined();
	});

	it("what a configuration file holds without effect is said on standard error", async () => {
		const host = fakeHost();
		host.endDaemon();
		const path = fileURLToPath(
			new URL("../../fixtures/config/without-effect.yaml", import.meta.url),
		);
		const { status, stderr } = await run(`run --manifests /m --config ${path}`, host);
		expect(status).toBe(0);
		expect(stderr).toBe(
			`kube-userproxy: warning: ${path}: without effect here: featureGates, ipvs.scheduler\n`,
		);
	});
});

describe("run --write-config-to", () => {
	it("writes and starts nothing", async () => {
		const host = fakeHost();
		expect(await run("run --manifests /m --write-config-to /f", host)).toEqual({
			status: 0,
			stdout: "Wrote /f\n",
			stderr: "",
		});
		expect(host.files.get("/f")).toContain("kind: KubeProxyConfiguration");
		expect(host.started()).toBeUndefined();
	});

	it("tells why it could not", async () => {
		const writeFile = () => {
			throw new Error("EACCES: permission denied");
		};
		const { status, stderr } = await run(
			"run --manifests /m --write-config-to /f",
			fakeHost({}, { writeFile }),
		);
		expect(status).toBe(1);
		expect(stderr).toBe(
			"kube-userproxy: --write-config-to: cannot write /f: EACCES: permission denied\n",
		);
	});
});

describe("run --cleanup", () => {
	it("cleans up, whatever else is configured", async () => {
		const host = fakeHost();
		const { status, stdout } = await run("run --cleanup", host);
		expect(status).toBe(0);
		expect(stdout).toContain("Nothing to remove");
		expect(host.started()).toBeUndefined();
	});

	it("=false runs", async () => {
		const host = fakeHost();
		host.endDaemon();
		await run("run --manifests /m --cleanup=false", host);
		expect(host.started()).toBeDefined();
	});
});

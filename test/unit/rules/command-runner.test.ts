import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test as it } from "vitest";
import { createCommandRunner } from "../../../src/rules/command-runner.ts";
import type { SpawnProgram } from "../../../src/rules/run-spawned.ts";
import { spawnProgram } from "../../../src/system/spawn.ts";

const signal = new AbortController().signal;
const limits = { signal, timeoutMs: 10_000 };

/** Starts programs with 0 to 10 descriptors left; prints the outcomes, and how many are lost in the end. */
const SHORT_OF_DESCRIPTORS = `
	import { closeSync, openSync, readdirSync } from "node:fs";
	const { createCommandRunner } = await import(process.argv[1]);
	const loadSpawn = process.argv[2] === undefined ? undefined : async () => (await import(process.argv[2])).spawnProgram;
	const runner = createCommandRunner({ env: process.env, loadSpawn });
	const run = () => runner
		.run("true", [], { signal: new AbortController().signal, timeoutMs: 10_000 })
		.then(() => "ok", (error) => error.message);
	await run();
	const before = readdirSync("/proc/self/fd").length;
	const outcomes = [];
	for (let free = 0; free <= 10; free += 1) {
		const held = [];
		try { for (;;) held.push(openSync("/dev/null")); } catch {}
		for (let index = 0; index < free; index += 1) closeSync(held.pop());
		outcomes.push(await run());
		for (const descriptor of held) closeSync(descriptor);
	}
	console.log(JSON.stringify({ outcomes, lost: readdirSync("/proc/self/fd").length - before }));
`;

/** Exits while a program runs that would make a file a second later; says that it runs. */
const EXITS_MEANWHILE = `
	const [, url, file, spawn] = process.argv;
	const loadSpawn = spawn === undefined ? undefined : async () => (await import(spawn)).spawnProgram;
	const { createCommandRunner } = await import(url);
	const onLine = () => process.exit(1);
	const options = { signal: new AbortController().signal, timeoutMs: 10_000, onLine };
	await createCommandRunner({ env: process.env, loadSpawn })
		.run("sh", ["-c", 'echo up; sleep 1; echo late > "$0"', file], options);
`;

/** Both ways of starting programs do the same. */
const WAYS: readonly (readonly [string, (() => Promise<SpawnProgram>) | undefined])[] = [
	["by Node", undefined],
	["by posix_spawn", () => Promise.resolve(spawnProgram)],
];

describe.each(WAYS)("a program that is started %s", (_way, loadSpawn) => {
	const runner = createCommandRunner({ env: process.env, loadSpawn });
	const url = new URL("../../../src/rules/command-runner.ts", import.meta.url).href;
	const spawnUrl =
		loadSpawn === undefined ? [] : [new URL("../../../src/system/spawn.ts", import.meta.url).href];

	it("run() gives input to the program and returns what it printed", async () => {
		const output = await runner.run("cat", [], { ...limits, input: "one\ntwo\n" });

		expect(output).toEqual({ stdout: "one\ntwo\n", stderr: "" });
	});

	it("run() hands over lines one by one, the last one without a newline too", async () => {
		const lines: string[] = [];

		const output = await runner.run("printf", ["a\\nb\\n\\nc"], {
			...limits,
			onLine: (line) => lines.push(line),
		});

		expect(lines).toEqual(["a", "b", "", "c"]);
		expect(output.stdout).toBe("");
	});

	it("run() passes more lines than fit into the collecting limit", async () => {
		let count = 0;

		await runner.run("seq", ["400000"], { ...limits, onLine: () => (count += 1) });

		expect(count).toBe(400_000);
	});

	it("run() refuses a program that does not end its line", async () => {
		await expect(
			runner.run("head", ["-c", "3000000", "/dev/zero"], { ...limits, onLine: () => {} }),
		).rejects.toMatchObject({ code: "COMMAND_OUTPUT_TOO_LONG" });
	});

	it("run() refuses a program that prints without end", async () => {
		await expect(runner.run("yes", [], limits)).rejects.toMatchObject({
			code: "COMMAND_OUTPUT_TOO_LONG",
		});
	});

	it("run() uses no shell and the C locale", async () => {
		const output = await runner.run("sh", ["-c", 'echo "$LC_ALL $1"', "sh", "$(id)"], limits);

		expect(output.stdout).toBe("C $(id)\n");
	});

	it("run() shows the program what iptables reads, and nothing else of ours", async () => {
		const given = { XTABLES_LOCKFILE: "/run/other.lock", SECRET: "s", HOME: "/root", PATH: "/bin" };
		const output = await createCommandRunner({ env: given, loadSpawn }).run("env", [], limits);

		expect(new Set(output.stdout.trim().split("\n"))).toEqual(
			new Set([
				"XTABLES_LOCKFILE=/run/other.lock",
				"LC_ALL=C",
				expect.stringMatching(/^PATH=\/bin:/),
			]),
		);
	});

	it("run() goes on to the next folder of PATH where it cannot be run from one", async () => {
		const folder = mkdtempSync(join(tmpdir(), "kup-path-"));
		const at = (name: string) => join(folder, name);
		for (const name of ["folder", "denied", "broken"]) mkdirSync(at(name));
		mkdirSync(at("folder/env"));
		writeFileSync(at("denied/env"), "#!/bin/sh\n", { mode: 0o644 });
		writeFileSync(at("broken/env"), "#!/no/such/shell\n", { mode: 0o755 });
		const path = [at("folder"), at("denied"), at("broken")].join(":");
		const output = await createCommandRunner({ env: { PATH: path }, loadSpawn })
			.run("env", [], limits)
			.finally(() => rmSync(folder, { recursive: true }));

		expect(output.stdout).toContain(path);
	});

	it("a program ends when we do", async () => {
		const folder = mkdtempSync(join(tmpdir(), "kup-exit-"));
		const node = [
			process.execPath,
			"--input-type=module",
			"-e",
			EXITS_MEANWHILE,
			url,
			join(folder, "late"),
		];
		await runner.run("env", [...node, ...spawnUrl], limits).catch(() => {});
		await new Promise((resolve) => setTimeout(resolve, 1_500));
		const left = readdirSync(folder);
		rmSync(folder, { recursive: true });

		expect(left).toEqual([]);
	});

	it("run() finds the programs of root without root's PATH", async () => {
		const output = await createCommandRunner({ env: { PATH: "/nowhere" }, loadSpawn }).run(
			"sh",
			["-c", "echo $PATH"],
			limits,
		);

		expect(output.stdout).toContain("/nowhere:");
		expect(output.stdout).toContain(":/usr/sbin:");
	});

	it("a missing program is told from one that fails (case 36e, classic 9.7.3)", async () => {
		await expect(runner.run("no-such-program-here", [], limits)).rejects.toMatchObject({
			code: "COMMAND_NOT_INSTALLED",
			retriable: false,
		});
		await expect(runner.run("sh", ["-c", "echo why >&2; exit 3"], limits)).rejects.toMatchObject({
			code: "COMMAND_FAILED",
			retriable: true,
			exitStatus: 3,
			stderr: "why",
		});
	});

	it("a program that does not read its input is no failure", async () => {
		const output = await runner.run("true", [], { ...limits, input: "x".repeat(1_000_000) });

		expect(output.stdout).toBe("");
	});

	it("a hung program is killed at its limit, with its children", async () => {
		await expect(
			runner.run("sh", ["-c", "sleep 60 & sleep 60"], { signal, timeoutMs: 200 }),
		).rejects.toMatchObject({ code: "COMMAND_TIMED_OUT", retriable: true });
	});

	it("a descendant that left the group and holds the output open does not hold us", async () => {
		// Longer than this test may take: waiting for it would be seen.
		await expect(
			runner.run("sh", ["-c", "setsid sleep 25 & sleep 60"], { signal, timeoutMs: 200 }),
		).rejects.toMatchObject({ code: "COMMAND_TIMED_OUT" });
	});

	it("an abort kills the program, one that came before keeps it from starting", async () => {
		const stop = new AbortController();
		const running = runner.run("sleep", ["60"], { signal: stop.signal, timeoutMs: 50_000 });
		stop.abort();

		await expect(running).rejects.toMatchObject({ code: "COMMAND_CANCELED" });
		await expect(
			runner.run("sleep", ["60"], { signal: stop.signal, timeoutMs: 50_000 }),
		).rejects.toMatchObject({ code: "COMMAND_CANCELED" });
	});

	it("run() loses no descriptor where there are too few to start a program", async () => {
		const url = new URL("../../../src/rules/command-runner.ts", import.meta.url).href;
		const spawnUrl =
			loadSpawn === undefined
				? []
				: [new URL("../../../src/system/spawn.ts", import.meta.url).href];
		const node = [
			process.execPath,
			"--input-type=module",
			"-e",
			SHORT_OF_DESCRIPTORS,
			url,
			...spawnUrl,
		];

		const { stdout } = await runner.run("prlimit", ["--nofile=100:100", ...node], limits);
		const { outcomes, lost } = JSON.parse(stdout) as { outcomes: string[]; lost: number };

		expect(outcomes[0]).toMatch(/Cannot run true.*EMFILE/);
		expect(outcomes.at(-1)).toBe("ok");
		expect(lost).toBe(0);
	});
});

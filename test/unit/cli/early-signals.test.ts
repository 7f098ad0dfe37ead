import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test as it } from "vitest";
import { DAEMON_PROGRAM, type LogLine } from "../../kit/daemon-process.ts";

let folder = "";
beforeEach(() => {
	folder = mkdtempSync(join(tmpdir(), "kup-early-signals-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

/**
 * Starts the program, which sends itself the signals while it loads its first module: with main.ts
 * begun, and long before anything of the daemon is there. Told to stop once `isOver` says so.
 */
async function start(
	signals: readonly NodeJS.Signals[],
	args: readonly string[],
	isOver: (lines: readonly LogLine[]) => boolean = () => false,
) {
	const preload = `
		import { registerHooks } from "node:module";
		let signals = ${JSON.stringify(signals)};
		registerHooks({ resolve: (specifier, context, next) => {
			if (specifier.includes("process-host"))
				for (const name of signals.splice(0)) process.kill(process.pid, name);
			return next(specifier, context);
		} });`;
	const child = spawn(
		process.execPath,
		["--import", `data:text/javascript,${encodeURIComponent(preload)}`, DAEMON_PROGRAM, ...args],
		{ stdio: ["ignore", "pipe", "inherit"] },
	);
	let output = "";
	const lines = (): LogLine[] =>
		output
			.split("\n")
			.slice(0, -1)
			.filter((line) => line.startsWith("{"))
			.map((line) => JSON.parse(line) as LogLine);
	child.stdout.setEncoding("utf8").on("data", (text: string) => {
		output += text;
		if (isOver(lines())) child.kill("SIGTERM");
	});
	const [code, signal] = await new Promise<[number | null, NodeJS.Signals | null]>(
		(resolve, reject) => {
			child.on("error", reject).on("close", (...end) => resolve(end));
		},
	);
	return { code, signal, lines: lines() };
}

describe("signals while the program is being loaded", () => {
	const runFlags = () => [
		"run",
		`--manifests=${folder}`,
		"--rules=none",
		"--hostname-override=node1",
		"--healthz-bind-address=",
		"--metrics-bind-address=",
	];

	it("are kept for the daemon, each once", async () => {
		const { lines, ...end } = await start(
			["SIGHUP", "SIGUSR1"],
			runFlags(),
			(seen) =>
				seen.some(({ msg }) => msg === "configuration read again") &&
				seen.some(({ msg }) => msg === "ready") &&
				seen.some(({ mode }) => mode === "errors"),
		);
		expect(end).toEqual({ code: 0, signal: null });
		expect(lines.filter(({ msg }) => msg === "configuration read again")).toHaveLength(1);
	});

	it("SIGUSR2 does not end the daemon", async () => {
		const { lines: _lines, ...end } = await start(["SIGUSR2"], runFlags(), (seen) =>
			seen.some(({ msg }) => msg === "ready"),
		);
		expect(end).toEqual({ code: 0, signal: null });
	});

	it.each(["SIGTERM", "SIGINT"] as const)("%s ends the daemon by the signal", async (name) => {
		const { lines, ...end } = await start([name], runFlags());
		expect([end, lines]).toEqual([{ code: null, signal: name }, []]);
	});

	it("end other commands as usual", async () => {
		const plan = ["plan", `--manifests=${folder}`, "--hostname-override=node1"];
		expect(await start(["SIGHUP"], plan)).toMatchObject({ code: null, signal: "SIGHUP" });
		expect(await start(["SIGUSR1"], plan)).toMatchObject({ code: 0, signal: null });
	});
});

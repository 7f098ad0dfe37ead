import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { text } from "node:stream/consumers";
import { describe, expect, test as it } from "vitest";
import { createCommandRunner } from "../../../src/rules/command-runner.ts";
import { type SpawnedProgram, spawnProgram } from "../../../src/system/spawn.ts";

async function outcomeOf(program: SpawnedProgram) {
	program.stdin.end();
	const [stdout, stderr, end] = await Promise.all([
		text(program.stdout),
		text(program.stderr),
		program.ended,
	]);
	return { stdout, stderr, ...end };
}

/** Runs a script of the shell, which is what this test speaks to programs. */
const script = (lines: string, env: Record<string, string> = {}) =>
	outcomeOf(spawnProgram("/bin/sh", ["sh", "-c", lines], { PATH: "/usr/bin:/bin", ...env }));

/** What this process has open: pipes, files and all. */
const openNow = () => {
	const folder = "/proc/self/fd";
	return readdirSync(folder).flatMap((fd) => {
		try {
			return [readlinkSync(`${folder}/${fd}`)];
		} catch {
			// The one that lists them.
			return [];
		}
	}).length;
};

/** Whoever started the tests may have left one open: O_CLOEXEC is not set then, which Node and we always do. */
const isPassedOn = (fd: string) => {
	try {
		const [, flags = ""] =
			/flags:\s+(\d+)/.exec(readFileSync(`/proc/self/fdinfo/${fd}`, "utf8")) ?? [];
		return (Number.parseInt(flags, 8) & 0o2000000) === 0;
	} catch {
		// The one that lists them.
		return false;
	}
};

describe("a program that is started without a fork", () => {
	it("gets what it is given, tells what it says, and how it ended", async () => {
		expect(await script('echo "$GREETING"; echo why >&2; exit 7', { GREETING: "grüß di" })).toEqual(
			{
				stdout: "grüß di\n",
				stderr: "why\n",
				exitStatus: 7,
				signal: undefined,
			},
		);
	});

	it("is told apart where a signal ended it", async () => {
		expect(await script("kill -TERM $$")).toMatchObject({ exitStatus: undefined, signal: 15 });
	});

	it("has no descriptor of ours but its three", async () => {
		const passedOn = readdirSync("/proc/self/fd").filter((fd) => Number(fd) > 2 && isPassedOn(fd));
		const { stdout } = await script("ls /proc/$$/fd");
		expect(stdout.trim().split(/\s+/)).toEqual(["0", "1", "2", ...passedOn]);
	});

	it("is ended by SIGPIPE as it would be anywhere, though we are not", async () => {
		// Where the signal is ignored, yes tells of a broken pipe.
		expect(await script("yes | head -n 1")).toMatchObject({ stdout: "y\n", stderr: "" });
	});

	it("has a session of its own, so that a terminal's signals do not reach it", async () => {
		const { stdout } = await script("ps -o sid= -p $$; echo $$");
		const [session, own] = stdout.trim().split(/\s+/);
		expect(session).toBe(own);
	});

	it("leaves nothing behind: no descriptor, no entry in the table of processes", async () => {
		await script("true");
		const before = openNow();
		const { stdout } = await script("echo $$");
		expect(() => process.kill(Number(stdout), 0)).toThrow("ESRCH");
		expect(openNow()).toBe(before);
	});

	it.each([
		["/no/such/file", "ENOENT"],
		["/etc/passwd", "EACCES"],
		["/", "EACCES"],
	])("%s is refused with %s, and leaves nothing open", (path, code) => {
		const before = openNow();
		expect(() => spawnProgram(path, [], {})).toThrow(`posix_spawn ${code}`);
		expect(openNow()).toBe(before);
	});

	it("is not passed on a null byte, behind which it would see nothing", () => {
		expect(() => spawnProgram("/bin/echo", ["echo", "one\0two"], {})).toThrow(
			'null byte: "one\\u0000two"',
		);
		expect(() => spawnProgram("/bin/echo", [], { NAME: "\0" })).toThrow("null byte");
	});

	it("can be killed at any time, and once it has ended nothing else is", async () => {
		const program = spawnProgram("/bin/sleep", ["sleep", "60"], {});
		program.kill();
		expect(await outcomeOf(program)).toMatchObject({ exitStatus: undefined, signal: 9 });
		program.kill();
	});

	it("and those that Node starts meanwhile are told of each their own end", async () => {
		const signal = new AbortController().signal;
		const runners = [undefined, () => Promise.resolve(spawnProgram)].map((loadSpawn) =>
			createCommandRunner({ env: process.env, loadSpawn }),
		);
		const statuses = Array.from({ length: 20 }, (_, index) => index + 1);
		const ends = await Promise.all(
			statuses.map(async (status) => {
				const running = runners[status % 2]?.run("sh", ["-c", `exit ${status}`], {
					signal,
					timeoutMs: 10_000,
				});
				return await running?.catch((error: { exitStatus: number }) => error.exitStatus);
			}),
		);
		expect(ends).toEqual(statuses);
	});
});

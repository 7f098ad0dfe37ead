import { spawn, spawnSync } from "node:child_process";
import {
	closeSync,
	constants,
	mkdtempSync,
	openSync,
	readFileSync,
	readSync,
	rmSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test as it, vi } from "vitest";
import { LogWriter } from "../../../src/observe/log-writer.ts";

let folder = "";
let opened: number[] = [];
beforeEach(() => {
	folder = mkdtempSync(join(tmpdir(), "log-writer-"));
	opened = [];
});
afterEach(() => {
	for (const fd of opened) closeSync(fd);
	rmSync(folder, { recursive: true });
});

function open(path: string, flags: string | number): number {
	const fd = openSync(path, flags);
	opened.push(fd);
	return fd;
}

/** A pipe whose two ends the test holds; the writing end blocks, as an inherited one does. */
function aPipe(): { readonly reader: number; readonly writer: number } {
	const path = join(folder, "pipe");
	spawnSync("mkfifo", [path]);
	const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
	return { reader, writer: open(path, constants.O_WRONLY) };
}

function readAvailable(fd: number): string {
	const buffer = Buffer.alloc(1024 * 1024);
	let text = "";
	for (;;) {
		try {
			const count = readSync(fd, buffer);
			if (count === 0) return text;
			text += buffer.toString("utf8", 0, count);
		} catch {
			return text;
		}
	}
}

const numbered = (count: number, padding = 0): string[] =>
	Array.from({ length: count }, (_, index) => `${index} ${"x".repeat(padding)}\n`);

describe("LogWriter", () => {
	it("appends whole lines in order to a file, and keeps what was there", async () => {
		const path = join(folder, "log");
		const fd = open(path, "a");
		const earlier = new LogWriter(fd);
		earlier.write("earlier\n");
		await earlier.flush(5_000);
		const writer = new LogWriter(fd);
		const lines = numbered(5_000, 50);
		for (const line of lines) writer.write(line);
		await writer.flush(5_000);
		expect(readFileSync(path, "utf8")).toBe(`earlier\n${lines.join("")}`);
		expect(writer.isTerminal).toBe(false);
	});

	it("loses nothing when the reader of a pipe is slow, and waits without blocking", async () => {
		const { reader, writer: fd } = aPipe();
		const writer = new LogWriter(fd);
		const lines = numbered(5_000, 100);
		for (const line of lines) writer.write(line);
		// Had the writer blocked in a full pipe, this turn of the event loop would never come.
		await new Promise((resolve) => setImmediate(resolve));
		let received = "";
		const expected = lines.join("");
		await vi.waitFor(
			() => {
				received += readAvailable(reader);
				expect(received.length).toBe(expected.length);
			},
			{ timeout: 15_000, interval: 5 },
		);
		expect(received).toBe(expected);
		expect(writer.droppedLines()).toBe(0);
		closeSync(reader);
		writer.close();
	});

	it("drops and counts what exceeds the bound, and tells so once there is room", async () => {
		const { reader, writer: fd } = aPipe();
		const writer = new LogWriter(fd);
		const told: number[] = [];
		writer.onRoomAgain((count) => told.push(count));
		for (const line of numbered(6_000, 1_000)) writer.write(line);
		const dropped = writer.droppedLines();
		expect(dropped).toBeGreaterThan(1_500);
		expect(told).toEqual([]);
		await vi.waitFor(
			() => {
				readAvailable(reader);
				expect(told).toEqual([dropped]);
			},
			{ timeout: 15_000, interval: 5 },
		);
		closeSync(reader);
		writer.close();
	});

	it("neither throws nor grows when the reader of a pipe is gone", async () => {
		const { reader, writer: fd } = aPipe();
		const writer = new LogWriter(fd);
		closeSync(reader);
		for (const line of numbered(10_000, 1_000)) writer.write(line);
		await vi.waitFor(() => expect(writer.droppedLines()).toBeGreaterThan(5_000));
		await writer.flush(10);
		writer.flushSync();
		writer.close();
	});

	it("writes at the end without the event loop", () => {
		const path = join(folder, "log");
		const writer = new LogWriter(open(path, "a"));
		for (const line of numbered(3)) writer.write(line);
		writer.flushSync();
		expect(readFileSync(path, "utf8")).toBe("0 \n1 \n2 \n");
	});

	it("does not hold up the end for a reader that does not read", () => {
		const { reader, writer: fd } = aPipe();
		const writer = new LogWriter(fd);
		for (const line of numbered(2_000, 1_000)) writer.write(line);
		writer.flushSync();
		expect(readAvailable(reader).startsWith("0 x")).toBe(true);
		closeSync(reader);
		writer.close();
	});

	it("waits for such a reader once only", async () => {
		const { reader, writer: fd } = aPipe();
		const writer = new LogWriter(fd);
		for (const line of numbered(2_000, 1_000)) writer.write(line);
		await writer.flush(50);
		const pause = vi.spyOn(Atomics, "wait");
		writer.flushSync();
		expect(pause).not.toHaveBeenCalled();
		pause.mockRestore();
		closeSync(reader);
		writer.close();
	});

	it("writes nothing once it is closed: its descriptor's number may be another file's", async () => {
		const { reader, writer: fd } = aPipe();
		const writer = new LogWriter(fd);
		for (const line of numbered(2_000, 1_000)) writer.write(line);
		await writer.flush(50);
		writer.close();
		closeSync(reader);
		// The lowest free number: that of the writer's own descriptor, or one below it.
		const path = join(folder, "other");
		for (let number = 0; number < 8; number += 1) open(path, "a");
		await new Promise((resolve) => setTimeout(resolve, 200));
		expect(readFileSync(path, "utf8")).toBe("");
	});

	it("writes at the end what a reader that is back has room for", async () => {
		const { reader, writer: fd } = aPipe();
		const writer = new LogWriter(fd);
		for (const line of numbered(100, 1_000)) writer.write(line);
		await writer.flush(50);
		const early = readAvailable(reader);
		writer.flushSync();
		expect((early + readAvailable(reader)).length).toBe(numbered(100, 1_000).join("").length);
		closeSync(reader);
		writer.close();
	});
});

describe("the process's own logger", () => {
	// Node connects a child's standard output by a socket, as systemd does.
	it("loses no line on a socket when the process exits at once (case 39e)", async () => {
		const logger = fileURLToPath(new URL("../../../src/observe/logger.ts", import.meta.url));
		const script = `
			import { createLogger } from ${JSON.stringify(logger)};
			const log = createLogger({ format: "json", level: "info" });
			for (let n = 0; n < 2_000; n += 1) log.info({ n }, "line");
			setImmediate(() => {
				log.error({ n: 2_000 }, "last words");
				process.exit(3);
			});`;
		const child = spawn(process.execPath, ["--input-type=module-typescript", "-e", script], {
			stdio: ["ignore", "pipe", "inherit"],
		});
		let output = "";
		child.stdout.setEncoding("utf8").on("data", (text: string) => {
			output += text;
		});
		const [code] = await new Promise<[number | null]>((resolve, reject) => {
			child.on("error", reject).on("close", (status) => resolve([status]));
		});
		const numbers = output
			.trimEnd()
			.split("\n")
			.map((line): unknown => JSON.parse(line).n);
		expect(code).toBe(3);
		expect(new Set(numbers).size).toBe(2_001);
	});
});

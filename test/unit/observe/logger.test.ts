import { describe, expect, test as it } from "vitest";
import type { LogDestination } from "../../../src/observe/log-writer.ts";
import { createLogger, type LoggerOptions } from "../../../src/observe/logger.ts";

function aLogger(options: Partial<LoggerOptions> & { readonly isTerminal?: boolean } = {}) {
	const lines: string[] = [];
	let roomAgain: (dropped: number) => void = () => {};
	const destination: LogDestination = {
		write: (line) => lines.push(line),
		isTerminal: options.isTerminal ?? false,
		droppedLines: () => 0,
		flush: () => Promise.resolve(),
		flushSync: () => {},
		onRoomAgain: (tell) => {
			roomAgain = tell;
		},
	};
	const logger = createLogger({ format: "json", level: "info", destination, ...options });
	return {
		logger,
		lines,
		tellRoomAgain: (dropped: number) => roomAgain(dropped),
		parsed: (): Record<string, unknown>[] => lines.map((line) => JSON.parse(line)),
	};
}

describe("createLogger() in JSON", () => {
	it("writes level as a word, time in ISO 8601, fields and message, and nothing else", () => {
		const { logger, lines, parsed } = aLogger();
		logger.info({ service: "shop/cart:http", proxyPort: 34_567 }, "listener opened");
		expect(lines[0]?.endsWith("}\n")).toBe(true);
		const [line] = parsed();
		expect(line).toEqual({
			level: "info",
			time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
			service: "shop/cart:http",
			proxyPort: 34_567,
			msg: "listener opened",
		});
	});

	it("adds the fields of a child to each of its lines", () => {
		const { logger, parsed } = aLogger();
		logger.child({ room: "rules" }).child({ family: "ipv4" }).warn({ tries: 2 }, "failed");
		expect(parsed()[0]).toMatchObject({ room: "rules", family: "ipv4", tries: 2, level: "warn" });
	});

	it("changes the level at run time, in children that exist already too", () => {
		const { logger, parsed } = aLogger({ level: "warn" });
		const child = logger.child({ room: "rules" });
		child.info({}, "before");
		expect(child.isDebug()).toBe(false);
		logger.setLevel("debug");
		expect([logger.level(), child.isDebug(), logger.isDebug()]).toEqual(["debug", true, true]);
		child.debug({}, "after");
		logger.setLevel("error");
		child.warn({}, "too late");
		child.error({}, "error");
		expect(parsed().map(({ msg }) => msg)).toEqual(["after", "error"]);
	});

	it("writes the info lines of `always` whatever the level", () => {
		const { logger, parsed } = aLogger({ level: "error" });
		logger.always.info({ id: "1" }, "connection");
		logger.setLevel("warn");
		logger.always.info({ id: "2" }, "connection");
		expect(parsed().map(({ id }) => id)).toEqual(["1", "2"]);
	});

	it("keeps one line one line, and escapes what a terminal might obey", () => {
		const { logger, lines, parsed } = aLogger();
		const name = 'evil\n{"level":"error"}\u001b[2J\u009b31m\u2028\u202e"';
		logger.info({ name }, "object");
		expect(lines[0]?.slice(0, -1)).not.toMatch(/[\p{Cc}\p{Cf}\u2028]/u);
		expect(parsed()[0]).toMatchObject({ name });
	});

	it("writes errors with type, message and stack", () => {
		const { logger, parsed } = aLogger();
		logger.error({ error: new TypeError("wrong") }, "failed");
		expect(parsed()[0]).toMatchObject({
			error: { type: "TypeError", message: "wrong", stack: expect.stringContaining("at ") },
		});
	});

	it("does not throw for fields that cannot be written", () => {
		const { logger, parsed } = aLogger();
		const circular: { big: bigint; self?: unknown } = { big: 1n };
		circular.self = circular;
		logger.info({ circular }, "circular");
		logger.info(
			{
				get trap() {
					throw new Error("no");
				},
			},
			"trap",
		);
		expect(parsed()).toMatchObject([{ msg: "circular" }, { msg: "trap", unloggable: "no" }]);
	});

	it("tells how many lines were dropped once there is room again", () => {
		const { tellRoomAgain, parsed } = aLogger();
		tellRoomAgain(12);
		expect(parsed()[0]).toMatchObject({ level: "warn", lines: 12, msg: "log lines were dropped" });
	});
});

describe("createLogger() for people", () => {
	it("writes time, level, message, then fields as name=value", () => {
		const { logger, lines } = aLogger({ format: "pretty" });
		logger.info(
			{ service: "shop/cart:http", text: "two words", n: 3, list: [1] },
			"listener opened",
		);
		expect(lines[0]).toMatch(
			/^\[\d\d:\d\d:\d\d\.\d{3}\] INFO: listener opened {2}service=shop\/cart:http text="two words" n=3 list=\[1\]\n$/,
		);
	});

	it("writes a connection as a sentence", () => {
		const { logger, lines } = aLogger({ format: "pretty" });
		const connection = {
			id: "1",
			service: "shop/cart",
			protocol: "tcp",
			client: "10.1.0.2:41234",
			endpoint: "10.2.1.2:80",
			bytesIn: 1,
			bytesOut: 2,
			durationMs: 3,
			end: "closed",
		};
		logger.always.info(connection, "connection");
		expect(lines[0]).toMatch(
			/INFO: 10\.1\.0\.2:41234 → shop\/cart → 10\.2\.1\.2:80 {2}closed {2}1 B in {2}2 B out {2}3 ms\n$/,
		);
	});

	it("has no escape sequence of its own where no terminal is", () => {
		const { logger, lines } = aLogger({ format: "pretty" });
		logger.error({ error: "x" }, "failed");
		expect(lines[0]?.slice(0, -1)).not.toMatch(/\p{Cc}/u);
	});

	it("has colours on a terminal", () => {
		const { logger, lines } = aLogger({ format: "pretty", isTerminal: true });
		logger.error({ error: "x" }, "failed");
		expect(lines[0]).toContain("\u001b[31mERROR");
	});

	it("shows control characters of messages, names and values instead of writing them", () => {
		const { logger, lines } = aLogger({ format: "pretty" });
		const evil = "a\u001b[2J\nb\u009b31m\u202e\u0007";
		logger.info({ evil, [`k${evil}`]: { nested: [evil] } }, `msg ${evil}`);
		expect(lines[0]?.slice(0, -1)).not.toMatch(/[\p{Cc}\p{Cf}]/u);
		expect(lines[0]).toContain('evil="a\\u001b[2J\\u000ab\\u009b31m\\u202e\\u0007"');
	});

	it("puts an error's stack below, and nothing else that its text may hold", () => {
		const { logger, lines } = aLogger({ format: "pretty" });
		logger.error({ error: new Error("bad\n[00:00:00.000] INFO: forged") }, "failed");
		const [first, ...below] = lines.join("").trimEnd().split("\n");
		expect(first).toContain('failed  error="bad\\u000a[00:00:00.000] INFO: forged"');
		expect(below.length).toBeGreaterThan(0);
		expect(below.every((line) => line.startsWith("    at "))).toBe(true);
	});
});

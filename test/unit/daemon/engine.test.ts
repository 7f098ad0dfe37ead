import { afterEach, describe, expect, test as it } from "vitest";
import { engineNameFor, openEngine, type SyscallModule } from "../../../src/daemon/engine.ts";
import type { RelayEngine } from "../../../src/proxies/engine.ts";
import { createStreamEngine } from "../../../src/proxies/stream/stream-engine.ts";
import { configOf, inputs } from "../config/inputs.ts";
import { aLog } from "../proxies/builders.ts";

describe("openEngine()", () => {
	let engine: RelayEngine | undefined;
	let fallbackReason: string | undefined;
	/** How many workers each engine of system calls was made with. */
	let made: (number | undefined)[] = [];
	afterEach(async () => {
		await engine?.close();
		engine = undefined;
		made = [];
	});

	/** Stands for the engine of system calls, which need not work where this test runs. */
	const working = (): Promise<SyscallModule> =>
		Promise.resolve({
			createSyscallEngine({ workers, ...options }) {
				made.push(workers);
				const engine = createStreamEngine({ ...options, udpAddress: () => undefined });
				return Object.assign(engine, { name: "syscall" as const });
			},
		});
	const missing = () => Promise.reject(new Error("Cannot find package 'koffi'"));
	const forbidden = () => Promise.reject(new Error("splice: EPERM"));

	/** @returns lines about the engine. */
	async function open(flags: Record<string, string[]>, load: () => Promise<SyscallModule>) {
		const { log, lines } = aLog();
		const parts = {
			rules: { open: () => Promise.reject(new Error("no iptables")), previous: missing },
			node: { addressOf: () => undefined },
			hooks: { onConnectionStart: () => {}, onConnectionEnd: () => {}, onCounted: () => {} },
			log,
			signal: AbortSignal.abort(),
		};
		({ engine, fallbackReason } = await openEngine(configOf(inputs(flags)), parts, load));
		return lines.filter(({ message }) => message.includes("system calls"));
	}

	it.each([
		["auto, the default", {}],
		["syscall", { relay: ["syscall"] }],
	])("relays by system calls where they can be made, with --relay %s", async (_, flags) => {
		expect(await open({ ...flags, workers: ["3"] }, working)).toEqual([]);
		expect([engine?.name, fallbackReason]).toEqual(["syscall", undefined]);
		expect(made).toEqual([3]);
	});

	it.each([
		["the library is missing", missing, "Cannot find package 'koffi'"],
		["the self-test fails", forbidden, "splice: EPERM"],
	])("relays without where %s, and says why once", async (_, load, reason) => {
		expect(await open({}, load)).toEqual([
			{
				level: "warn",
				message: "system calls cannot be made here, one thread relays without them",
				fields: { reason },
			},
		]);
		expect([engine?.name, fallbackReason]).toEqual(["stream", reason]);
	});

	it("says then that --workers is without effect", async () => {
		expect(await open({ workers: ["3"] }, missing)).toMatchObject([
			{ fields: { withoutEffect: "--workers" } },
		]);
	});

	it("refuses with --relay syscall where they cannot be made", async () => {
		await expect(open({ relay: ["syscall"] }, forbidden)).rejects.toThrow(
			"Cannot relay with --relay syscall: splice: EPERM (--relay stream does without)",
		);
	});

	it("does not even look for them with --relay stream", async () => {
		expect(await open({ relay: ["stream"] }, missing)).toEqual([]);
		expect([engine?.name, fallbackReason]).toEqual(["stream", undefined]);
	});
});

describe("engineNameFor()", () => {
	it.each([
		["auto", "work", "syscall"],
		["auto", "do not", "stream"],
		["stream", "work", "stream"],
		["syscall", "do not", "syscall"],
	] as const)("of --relay %s where system calls %s is %s", async (relay, what, name) => {
		const load = () => (what === "work" ? Promise.resolve() : Promise.reject(new Error("EPERM")));
		expect(await engineNameFor(configOf(inputs({ relay: [relay] })), load)).toBe(name);
	});
});

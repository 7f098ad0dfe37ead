import { afterAll, expect, vi } from "vitest";

// vitest runs this file before each file of tests that share a process: what one of them leaves there
// would be the next one's, so that it fails by itself.

const before = stateOfProcess();

afterAll(() => {
	const after = stateOfProcess();
	// Names only: an environment may hold secrets.
	const left = [...new Set([...before.keys(), ...after.keys()])].filter(
		(what) => before.get(what) !== after.get(what),
	);
	expect(left, "this file's tests left something in the process").toEqual([]);
});

function stateOfProcess(): ReadonlyMap<string, unknown> {
	const signals = process.eventNames().filter((name) => String(name).startsWith("SIG"));
	return new Map<string, unknown>([
		...Object.entries(process.env).map(([name, value]) => [`environment: ${name}`, value] as const),
		...signals.map((name) => [`listeners: ${String(name)}`, process.listenerCount(name)] as const),
		["exit code", process.exitCode],
		["fake timers", vi.isFakeTimers()],
		["working directory", process.cwd()],
	]);
}

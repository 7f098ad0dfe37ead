import { getPriority, release } from "node:os";
import { expect, test as it } from "vitest";
import { askForShortSlices } from "../../../../src/proxies/syscall/scheduling.ts";
import { schedGetattr } from "../../../../src/system/libc.ts";

/** The first Linux that lets a thread have slices of its own. */
const SINCE = 6.12;

const [major = "0", minor = "0"] = release().split(".");
const hasSlices = Number(major) > 6 || (Number(major) === 6 && Number(minor) >= 12);

/** In 32-bit words of struct sched_attr. */
const POLICY = 1;
const NICE = 4;
const RUNTIME = 6;

it.skipIf(!hasSlices)(
	`askForShortSlices() gives this thread slices of 0.1 ms (Linux ${SINCE})`,
	() => {
		const before = getPriority();
		askForShortSlices();
		const attributes = new Uint32Array(12);
		expect(schedGetattr(attributes)).toBe(0);
		expect(attributes[RUNTIME]).toBe(100_000);
		expect(attributes[POLICY]).toBe(0);
		expect((attributes[NICE] ?? 0) | 0).toBe(before);
		expect(getPriority()).toBe(before);
	},
);

import { schedGetattr, schedSetattr } from "../../system/libc.ts";

/*
 * struct sched_attr in its first version, in 32-bit words: size, policy, flags (2), nice, priority, runtime (2),
 * deadline (2), period (2).
 */
const ATTRIBUTE_WORDS = 12;
const RUNTIME_AT = 6;

/** The least that Linux gives (kernel/sched/syscalls.c). */
const SLICE_NS = 100_000;

/**
 * Asks the scheduler to run this thread for a short time, and soon, whenever it has something to do.
 *
 * A relay does little for each event, and somebody waits for it. By default a thread that wakes up waits until
 * the one that runs has had its slice of some 3 ms, where no processor is free. Nobody gets less of a processor
 * by this, and it needs no privilege. Linux before 6.12 takes no notice; where a sandbox forbids the call, all stays as
 * it is.
 */
export function askForShortSlices(): void {
	const attributes = new Uint32Array(ATTRIBUTE_WORDS);
	// Niceness and all else are to stay as they are.
	if (schedGetattr(attributes) < 0) return;
	attributes[RUNTIME_AT] = SLICE_NS;
	attributes[RUNTIME_AT + 1] = 0;
	schedSetattr(attributes);
}

import type { ReflectorLimits } from "./limits.ts";

type ListPaceLimits = Pick<
	ReflectorLimits,
	"listTotalMs" | "streamWindowMs" | "streamWindowObjects"
>;

/**
 * Tells a streaming list that is on its way from a watch that never says where its list ends: that is
 * what a server sends which does not know streaming lists and ignores what it does not know. On a
 * busy cluster such a watch is never silent.
 *
 * A list on its way brings hundreds of objects a second, also one of 100,000 on a slow server; what
 * happens in a cluster brings few new ones. So each stretch of time has to bring some. Changes and
 * deletions are no sign by themselves: while a list is on its way, servers may send those too. To be
 * wrong costs little: the list is read in pages instead.
 */
export class ListPace {
	readonly #limits: ListPaceLimits;
	readonly #startMs: number;
	#windowStartMs: number;
	#countAtStart = 0;

	constructor(limits: ListPaceLimits, nowMs: number) {
		this.#limits = limits;
		this.#startMs = nowMs;
		this.#windowStartMs = nowMs;
	}

	/**
	 * To be asked whenever something came.
	 *
	 * @param nowMs monotonic.
	 * @param count objects that the list has brought so far.
	 */
	isTooSlow(nowMs: number, count: number): boolean {
		const { listTotalMs, streamWindowMs, streamWindowObjects } = this.#limits;
		if (nowMs - this.#startMs > listTotalMs) return true;
		if (nowMs - this.#windowStartMs < streamWindowMs) return false;
		const isEnough = count - this.#countAtStart >= streamWindowObjects;
		this.#windowStartMs = nowMs;
		this.#countAtStart = count;
		return !isEnough;
	}
}

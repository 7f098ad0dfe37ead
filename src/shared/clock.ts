/** Time, so that tests can set it. */
export interface Clock {
	/** Milliseconds since the epoch: for what people read. May jump. */
	wallMs(): number;
	/** Milliseconds since some moment, never going back: for durations and limits. */
	monotonicMs(): number;
}

export const systemClock: Clock = {
	wallMs: () => Date.now(),
	monotonicMs: () => performance.now(),
};

/**
 * Longest wait that Node's timers can hold (2^31 - 1 ms, about 24.8 days): a longer one would fire
 * at once.
 */
export const MAX_DURATION_MS = 2_147_483_647;

const MS_PER_UNIT: Readonly<Record<string, number>> = {
	ns: 1e-6,
	us: 1e-3,
	µs: 1e-3, // U+00B5, the micro sign
	μs: 1e-3, // U+03BC, the Greek letter; Go takes both
	ms: 1,
	s: 1000,
	m: 60_000,
	h: 3_600_000,
};

const PART = /(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)/g;
const WHOLE = /^[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+$/;

/**
 * Reads a duration as Go writes it: "250ms", "1m30s", "1.5h", "0", "-5s".
 *
 * @returns milliseconds, rounded; what is not 0 is at least 1 (or -1). Undefined if it is no
 * duration, or further from 0 than {@link MAX_DURATION_MS}.
 */
export function parseDuration(text: string): number | undefined {
	if (/^[+-]?0$/.test(text)) return 0;
	if (!WHOLE.test(text)) return undefined;
	let ms = 0;
	for (const [, amount, unit] of text.matchAll(PART)) {
		ms += Number(amount) * (MS_PER_UNIT[unit ?? ""] ?? Number.NaN);
	}
	if (!(ms <= MAX_DURATION_MS)) return undefined;
	const rounded = ms > 0 ? Math.max(1, Math.round(ms)) : 0;
	return text.startsWith("-") && rounded > 0 ? -rounded : rounded;
}

/** The shortest text that {@link parseDuration} reads back: "1h", "1m30s", "1.5s", "250ms", "0s". */
export function formatDuration(ms: number): string {
	if (ms < 0) return `-${formatDuration(-ms)}`;
	if (ms === 0) return "0s";
	if (ms < 1000) return `${ms}ms`;
	const hours = Math.floor(ms / 3_600_000);
	const minutes = Math.floor((ms % 3_600_000) / 60_000);
	const seconds = (ms % 60_000) / 1000;
	return [
		hours > 0 ? `${hours}h` : "",
		minutes > 0 ? `${minutes}m` : "",
		seconds > 0 ? `${seconds}s` : "",
	].join("");
}

import { createHash } from "node:crypto";

/** The period is prime, so that no power-of-two shift or repeat of a buffer looks right. */
const PERIOD = 65_521;
const period = Buffer.from(Array.from({ length: PERIOD }, (_, i) => (i * 31 + (i >> 8)) & 0xff));

/** Bytes that a test can foretell: the same ones for the same length and start. */
export function pattern(bytes: number, start = 0): Buffer {
	const whole = Buffer.allocUnsafe(bytes);
	let done = 0;
	while (done < bytes) {
		const from = (start + done) % PERIOD;
		done += period.copy(whole, done, from, Math.min(PERIOD, from + bytes - done));
	}
	return whole;
}

export function patternSha256(bytes: number): string {
	return createHash("sha256").update(pattern(bytes)).digest("hex");
}

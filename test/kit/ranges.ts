import { type IpRange, parseIpRange } from "../../src/services/ip-range.ts";

/** @throws {RangeError} for text that is no range. */
export function aRange(text: string): IpRange {
	const range = parseIpRange(text);
	if (range === undefined) throw new RangeError(`Cannot use "${text}" as a range`);
	return range;
}

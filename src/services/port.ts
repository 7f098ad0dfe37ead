declare const portBrand: unique symbol;

/** A TCP or UDP port: an integer in 1..65535. Made only by {@link toPort} and {@link isPort}. */
export type Port = number & { readonly [portBrand]: true };

export function isPort(value: unknown): value is Port {
	return typeof value === "number" && Number.isInteger(value) && value >= 1 && value <= 65_535;
}

/** @throws {RangeError} if the number is not an integer in 1..65535. */
export function toPort(value: number): Port {
	if (!isPort(value)) {
		throw new RangeError(`Cannot use a port that is not an integer in 1..65535: got ${value}`);
	}
	return value;
}

import { type IpAddress, parseIpAddress } from "../services/address.ts";
import { type Port, toPort } from "../services/port.ts";
import type { ListenAddress, PortRange } from "./config.ts";
import { formatDuration, parseDuration } from "./duration.ts";
import { parseListenAddress } from "./listen-address.ts";
import { parsePortRange } from "./port-range.ts";

/** What a text means, or what had been wanted in its place: "a duration such as 30s". */
export type Parsed<T> = { readonly value: T } | { readonly wanted: string };

/** Reads the text of one flag or file field. Never throws, whatever the text. */
export type ValueParser<T> = (text: string) => Parsed<T>;

/** As many as a connection record tells of. */
const MAX_DIAL_ATTEMPTS = 16;

export function duration(atLeastMs: number, example: string): ValueParser<number> {
	const limit = atLeastMs > 0 ? `, at least ${formatDuration(atLeastMs)}` : "";
	const wanted = `a duration such as ${example}${limit} and at most 596h`;
	return (text) => {
		const ms = parseDuration(text);
		if (ms === undefined && !/\d/.test(text)) return { wanted: `a duration such as ${example}` };
		return ms === undefined || ms < atLeastMs ? { wanted } : { value: ms };
	};
}

/**
 * A timeout of the kernel, which counts in whole seconds: the rest is cut off. 0 means "left alone".
 *
 * @returns a parser for seconds.
 */
export function kernelTimeout(example: string): ValueParser<number> {
	const parse = duration(0, example);
	const wanted = `0, or a duration such as ${example}, at least 1s and at most 596h`;
	return (text) => {
		const parsed = parse(text);
		// Not even a duration: the other text says so better.
		if ("wanted" in parsed) return /\d/.test(text) ? { wanted } : parsed;
		return parsed.value > 0 && parsed.value < 1000
			? { wanted }
			: { value: Math.floor(parsed.value / 1000) };
	};
}

export const durations: ValueParser<readonly number[]> = (text) => {
	const list = text.split(",").map((part) => parseDuration(part.trim()));
	const good = list.filter((ms) => ms !== undefined && ms > 0) as number[];
	return good.length === list.length && list.length <= MAX_DIAL_ATTEMPTS
		? { value: good }
		: {
				wanted: `1 to ${MAX_DIAL_ATTEMPTS} durations above 0 with commas between, such as 250ms,1s`,
			};
};

export function integer(min: number, max: number): ValueParser<number> {
	return (text) => {
		const value = /^[+-]?\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
		return value >= min && value <= max
			? { value: value + 0 }
			: { wanted: `an integer in ${min}..${max}` };
	};
}

/** Like `integer`, but the empty text means "left alone". */
export function integerOrEmpty(min: number, max: number): ValueParser<number | undefined> {
	const parse = integer(min, max);
	return (text) => (text === "" ? { value: undefined } : parse(text));
}

export function oneOf<const T extends string>(...choices: readonly T[]): ValueParser<T> {
	const wanted = `${choices.slice(0, -1).join(", ")} or ${choices.at(-1)}`;
	return (text) => {
		const value = choices.find((choice) => choice === text);
		return value === undefined ? { wanted } : { value };
	};
}

export const truth: ValueParser<boolean> = (text) => {
	// The spellings that Go's flags take, so that a kube-proxy command line can be copied.
	if (/^(true|TRUE|True|t|T|1)$/.test(text)) return { value: true };
	if (/^(false|FALSE|False|f|F|0)$/.test(text)) return { value: false };
	return { wanted: "true or false" };
};

export const portRange: ValueParser<PortRange | undefined> = (text) => {
	const parsed = parsePortRange(text);
	return parsed === undefined
		? { wanted: "ports as N, FIRST-LAST or FIRST+COUNT within 1..65535, or 0 for any" }
		: { value: parsed.range };
};

/** Empty means "not served". */
export function listenAddress(defaultPort: number): ValueParser<ListenAddress | undefined> {
	const port: Port = toPort(defaultPort);
	return (text) => {
		if (text.trim() === "") return { value: undefined };
		const value = parseListenAddress(text.trim(), port);
		return value === undefined
			? { wanted: `an IP address with or without a port, such as 127.0.0.1:${port}` }
			: { value };
	};
}

/** An address to bind proxy listeners to; the wildcards and the empty text count as given wildcards. */
export const bindAddress: ValueParser<IpAddress> = (text) => {
	const value = parseIpAddress(text.trim() === "" ? "0.0.0.0" : text.trim());
	if (value === undefined) return { wanted: "an IP address" };
	return value === "::1" || value.startsWith("127.")
		? { wanted: "an address that other hosts can reach (a proxy on localhost serves nobody)" }
		: { value };
};

/** Empty means "not given". */
export const path: ValueParser<string | undefined> = (text) =>
	text.includes("\0")
		? { wanted: "a path without NUL" }
		: { value: text.trim() === "" ? undefined : text };

export const requiredPath: ValueParser<string> = (text) =>
	text.trim() === "" || text.includes("\0") ? { wanted: "a path" } : { value: text };

/** Empty means "not given". */
export const serverUrl: ValueParser<string | undefined> = (text) => {
	if (text.trim() === "") return { value: undefined };
	const wanted = "a URL such as https://192.0.2.10:6443";
	if (!URL.canParse(text.trim())) return { wanted };
	const url = new URL(text.trim());
	if (!/^https?:$/.test(url.protocol) || url.hostname === "") return { wanted };
	return url.username === "" && url.password === "" && url.search === "" && url.hash === ""
		? { value: text.trim() }
		: { wanted: `${wanted}, without user name, query or fragment` };
};

/** A label's value, as the API server checks it; the empty one is refused: see the flag. */
export const labelValue: ValueParser<string> = (text) =>
	/^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/.test(text)
		? { value: text }
		: { wanted: "a label value: 1 to 63 letters, digits, '-', '_' or '.'" };

/**
 * A node's name, trimmed and in lower case as kube-proxy does. Empty means "not given", blanks are
 * an error. '_' is no part of a Node's name, but host names without a cluster may have it.
 */
export const nodeName: ValueParser<string | undefined> = (text) => {
	if (text === "") return { value: undefined };
	const value = text.trim().toLowerCase();
	return /^[a-z0-9]([-a-z0-9_.]{0,251}[a-z0-9])?$/.test(value)
		? { value }
		: { wanted: "a node name: 1 to 253 letters, digits, '-' or '.'" };
};

/** klog's number; "=4" is what is left of "-v=4", the way kube-proxy's users write it. */
export const verbosity: ValueParser<number> = (text) =>
	integer(0, 1_000_000)(text.startsWith("=") ? text.slice(1) : text);

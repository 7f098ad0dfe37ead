/** One thing that is wrong with what was configured. */
export interface ConfigProblem {
	/** "--udp-timeout", "/etc/x.yaml: iptables.syncPeriod"; empty where no single place is to blame. */
	readonly where: string;
	/** 'wanted a duration such as 30s, got "abc"'. */
	readonly message: string;
}

/** Longer values are cut: a message is for reading. */
const MAX_SHOWN = 80;

/** "--udp-timeout: wanted a duration such as 30s, got "abc"". */
export function describeConfigProblem({ where, message }: ConfigProblem): string {
	return where === "" ? message : `${where}: ${message}`;
}

/** @param shown in place of the value itself. */
export function wanted(
	where: string,
	what: string,
	got: unknown,
	shown: string = show(got),
): ConfigProblem {
	return { where, message: `wanted ${what}, got ${shown}` };
}

/** A value from outside on one line: quoted, control characters escaped, cut. */
export function show(value: unknown): string {
	if (value === undefined) return "nothing";
	if (Array.isArray(value)) return "a list";
	if (typeof value === "object" && value !== null) return "a mapping";
	if (typeof value === "string") return quote(value);
	return typeof value === "number" || typeof value === "boolean" || value === null
		? `${value}`
		: `a ${typeof value}`;
}

function quote(text: string): string {
	const cut = text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text;
	return JSON.stringify(cut).replace(
		// What JSON leaves alone and a terminal does not: DEL, C1 controls, line and direction marks.
		/[\u007f-\u009f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
		(mark) => `\\u${mark.charCodeAt(0).toString(16).padStart(4, "0")}`,
	);
}

import type { ValueParser } from "./values.ts";

/** The sections of the help, in order. */
export const FLAG_GROUPS = [
	"Where Services come from",
	"This node",
	"Relaying",
	"Packet rules",
	"Connection tracking",
	"Logs and status",
	"Instead of running",
] as const;

export interface FlagSpec<T> {
	readonly group: (typeof FLAG_GROUPS)[number];
	/** kube-proxy has a flag of this name. */
	readonly kubeProxy: boolean;
	/** Name of the value in the help; undefined: a switch (which may be given a truth value). */
	readonly placeholder: string | undefined;
	/** The text that stands for "not given"; undefined where nothing stands for it. */
	readonly default: string | undefined;
	/** One sentence without a full stop; units, limits and choices included. */
	readonly help: string;
	/** May be given several times; otherwise the last one counts, as in kube-proxy. */
	readonly repeatable: boolean;
	readonly parse: ValueParser<T>;
}

/** One row of the table; what is left out is the usual. */
export function flag<T, const D extends string | undefined = undefined>(spec: {
	readonly group: (typeof FLAG_GROUPS)[number];
	readonly kubeProxy?: true;
	readonly placeholder?: string;
	readonly default?: D;
	readonly help: string;
	readonly repeatable?: true;
	readonly parse: ValueParser<T>;
}): FlagSpec<T> & { readonly default: D } {
	return {
		group: spec.group,
		kubeProxy: spec.kubeProxy ?? false,
		placeholder: spec.placeholder,
		// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- D is undefined where it is left out
		default: spec.default as D,
		help: spec.help,
		repeatable: spec.repeatable ?? false,
		parse: spec.parse,
	};
}

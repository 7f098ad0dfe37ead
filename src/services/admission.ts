/**
 * The answer to "would the API server have taken this object, and can we use it?".
 *
 * admit-*.ts turn what came from outside (`unknown`) into our types or into a list of everything
 * that is wrong with it; they never throw.
 */
export type Admission<T> =
	| { readonly admitted: true; readonly object: T }
	| { readonly admitted: false; readonly problems: readonly FieldProblem[] };

export interface FieldProblem {
	/** "spec.ports[0].port"; empty for the object itself. */
	readonly field: string;
	/** "wanted an integer in 1..65535, got 70000": what was wanted and what was got, cut to a sane length. */
	readonly message: string;
}

/** "spec.ports[0].port: wanted an integer in 1..65535, got 70000". */
export function describeProblem(problem: FieldProblem): string {
	return problem.field === "" ? problem.message : `${problem.field}: ${problem.message}`;
}

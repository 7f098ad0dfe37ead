import { oneLine } from "../one-line.ts";
import type { RejectedObject } from "../source.ts";
import type { ManifestFault, ManifestProblem } from "./parse-manifest.ts";

/** Faults in one log line: nobody mends more at a time. */
const MAX_TOLD = 5;
const MAX_CHARACTERS = 300;

/** "document 2, line 14: Service shop/cart: spec.ports[0].port: wanted …; …; and 3 more". */
export function describeProblems(problems: readonly ManifestProblem[]): string {
	const texts = problems.flatMap((problem) =>
		problem.faults.map((fault) => describeFault(problem, fault)),
	);
	const more = texts.length - MAX_TOLD;
	return [...texts.slice(0, MAX_TOLD), ...(more > 0 ? [`and ${more} more`] : [])].join("; ");
}

/** The same for the status: one entry per object. */
export function toRejected(file: string, problem: ManifestProblem): RejectedObject {
	const { document, object, faults } = problem;
	const place = document === undefined ? file : `${file}, document ${document}`;
	const texts = faults.map(({ line, text }) =>
		line === undefined ? text : `line ${line}: ${text}`,
	);
	return {
		object: oneLine(object === "" ? place : `${object} (${place})`, MAX_CHARACTERS),
		problems: texts.slice(0, MAX_TOLD).map((text) => oneLine(text, MAX_CHARACTERS)),
	};
}

function describeFault(
	{ document, object }: ManifestProblem,
	{ line, text }: ManifestFault,
): string {
	const places = [
		...(document === undefined ? [] : [`document ${document}`]),
		...(line === undefined ? [] : [`line ${line}`]),
	];
	const parts = [places.join(", "), object, text].filter((part) => part !== "");
	return oneLine(parts.join(": "), MAX_CHARACTERS);
}

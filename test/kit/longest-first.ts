import { BaseSequencer, type TestSpecification } from "vitest/node";

/**
 * Starts the files of integration tests that take longest before the others, so that no long one is left
 * when the other workers have nothing to do. vitest does so by itself only where it has run before: in a
 * new checkout it goes by the size of the files.
 */
export class LongestFirst extends BaseSequencer {
	override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
		return (await super.sort(files)).toSorted((a, b) => group(a) - group(b) || rank(a) - rank(b));
	}
}

const LONGEST = [
	"scenarios-legacy",
	"scenarios-nft",
	"daemon-scale",
	"rules-traffic",
	"rules-repair",
	"daemon-cases",
	"daemon-kubernetes",
	"daemon-lifecycle",
	"daemon-unnumbered-interface",
	"vanished-peer",
] as const;

/** Unit tests come before integration tests, each kind of theirs by itself. */
function group({ project }: TestSpecification): number {
	return project.config.sequence.groupOrder;
}

function rank({ moduleId }: TestSpecification): number {
	const found = LONGEST.findIndex((name) => moduleId.endsWith(`/${name}.test.ts`));
	return found === -1 ? LONGEST.length : found;
}

import type { Log } from "../../shared/log.ts";
import type { Duplicate } from "./combine-files.ts";

/** Told one by one; of further ones the number is told. */
const MAX_TOLD = 20;

/** Says which objects are there twice: each once, as long as it stays so. */
export class DuplicateNotices {
	readonly #log: Log;
	#told: ReadonlySet<string> = new Set();

	constructor(log: Log) {
		this.#log = log;
	}

	/** @param duplicates all that there are now. */
	see(duplicates: readonly Duplicate[]): void {
		const news = duplicates.filter((duplicate) => !this.#told.has(identify(duplicate)));
		this.#told = new Set(duplicates.map(identify));
		for (const duplicate of news.slice(0, MAX_TOLD)) {
			this.#log.warn(duplicate, "object is there twice, the first counts");
		}
		if (news.length > MAX_TOLD) {
			this.#log.warn({ count: news.length - MAX_TOLD }, "more objects are there twice");
		}
	}
}

function identify({ object, used, leftOut }: Duplicate): string {
	return `${object}\n${used}\n${leftOut}`;
}

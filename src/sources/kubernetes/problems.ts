import { describeError } from "../../shared/errors.ts";
import type { Log } from "../../shared/log.ts";
import { oneLine } from "../one-line.ts";
import { ApiError, needsPerson } from "./api-errors.ts";

/** Messages remembered as said until all is well again; beyond, the oldest may be said anew. */
const MAX_SAID = 20;

/** Where one reflector says what goes wrong with it. */
export interface ProblemSlot {
	report(error: unknown): void;
	clear(): void;
}

/**
 * What goes wrong at present, over all reflectors: said once when it begins or becomes something
 * else, and once when all is well again; never at each retry. The same trouble of several reflectors
 * is one.
 */
export class Problems {
	readonly #log: Log;
	readonly #current = new Map<string, string>();
	readonly #said = new Set<string>();
	#recoveredPending = false;

	constructor(log: Log) {
		this.#log = log;
	}

	/** @param name one per reflector: they are few and fixed. */
	slot(name: string): ProblemSlot {
		return {
			report: (error) => this.#report(name, error),
			clear: () => this.#clear(name),
		};
	}

	/** All of them, for the status; undefined when there is none. */
	describe(): string | undefined {
		const messages = new Set(this.#current.values());
		return messages.size === 0 ? undefined : [...messages].join("; ");
	}

	#report(name: string, error: unknown): void {
		const message = oneLine(describeProblemOf(error), 600);
		this.#current.set(name, message);
		if (this.#said.has(message)) return;
		if (this.#said.size >= MAX_SAID) this.#said.delete([...this.#said][0] ?? "");
		this.#said.add(message);
		this.#recoveredPending = true;
		const isForPerson = !(error instanceof ApiError) || needsPerson(error);
		if (isForPerson) this.#log.error({ reason: message }, "cluster source failing");
		else this.#log.warn({ reason: message }, "cluster source failing");
	}

	#clear(name: string): void {
		this.#current.delete(name);
		if (this.#current.size > 0 || !this.#recoveredPending) return;
		this.#recoveredPending = false;
		this.#said.clear();
		this.#log.info({}, "cluster source recovered");
	}
}

/** An ApiError's message is complete; its cause is for debugging only. */
function describeProblemOf(error: unknown): string {
	return error instanceof ApiError ? error.message : describeError(error);
}

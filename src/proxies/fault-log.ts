import type { Log } from "../shared/log.ts";

/**
 * One kind of fault that may come a thousand times a second: said when it begins and, with the
 * count, when a whole sweep has passed without it.
 */
export class FaultLog {
	readonly #log: Log;
	readonly #began: string;
	readonly #ended: string;
	#count = 0;
	#countAtSweep = 0;

	/** Both texts are constant: "accepting fails", "accepting works again". */
	constructor(log: Log, began: string, ended: string) {
		this.#log = log;
		this.#began = began;
		this.#ended = ended;
	}

	happened(fields: object): void {
		if (this.#count === 0) this.#log.warn(fields, this.#began);
		this.#count += 1;
	}

	/** To be called now and then; the time between two calls is what counts as quiet. */
	sweep(): void {
		if (this.#count === 0) return;
		if (this.#count !== this.#countAtSweep) {
			this.#countAtSweep = this.#count;
			return;
		}
		this.#log.info({ count: this.#count }, this.#ended);
		this.#count = 0;
		this.#countAtSweep = 0;
	}
}

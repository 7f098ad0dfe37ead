import type { Clock } from "../shared/clock.ts";
import type { Log } from "../shared/log.ts";
import { RecurringFailure } from "../shared/recurring.ts";

/** What goes wrong on this node's side with listeners and TCP connections, as operators are told. */
const TEXTS = {
	paused: {
		failing: "accepting paused: new connections wait for others to end",
		recovered: "accepting resumed",
	},
	refused: { failing: "connections refused", recovered: "no connection refused any more" },
	accept: { failing: "accepting fails", recovered: "accepting works again" },
	unwatched: {
		failing: "listeners are not watched for want of memory or epoll watches: their clients wait",
		recovered: "all listeners are watched again",
	},
	local: {
		failing: "dialing fails for want of descriptors, local ports or memory",
		recovered: "dialing works again",
	},
} as const;

export type NodeFaultKind = keyof typeof TEXTS;

export interface NodeFault {
	readonly kind: NodeFaultKind;
	/** What went wrong, as a person would want to read it. */
	readonly text: string;
	readonly fields: object;
}

/** Logs each kind of fault when it begins and when it is over, however many there are. */
export class NodeFaults {
	readonly #failures: ReadonlyMap<NodeFaultKind, RecurringFailure>;

	constructor(log: Log, clock: Clock) {
		this.#failures = new Map(
			Object.entries(TEXTS).map(([kind, texts]) => [
				// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the keys of TEXTS
				kind as NodeFaultKind,
				new RecurringFailure({ log, clock, ...texts }),
			]),
		);
	}

	happened({ kind, text, fields }: NodeFault): void {
		this.#failures.get(kind)?.failed(text, fields);
	}

	/** To be called about once a second. @param isPaused true while connections wait. */
	sweep(isPaused: boolean): void {
		for (const [kind, failure] of this.#failures) {
			// While clients wait it is one pause, however often the last of them was let in meanwhile.
			if (kind !== "paused" || !isPaused) failure.sweep();
		}
	}
}

import type { Log } from "../../shared/log.ts";
import { ApiError } from "./api-errors.ts";
import type { ProblemSlot } from "./problems.ts";

/** What may be so of nodes and of nothing else. */
function isAboutNodes({ code, status }: ApiError): boolean {
	return status === 403 || status === 404 || code === "wrong-kind";
}

/**
 * Says, once each time it changes, that this node's Node object cannot be read or is not there. No
 * more than a warning: without it only the node's zone and addresses are unknown.
 *
 * Failures that are not about nodes are left to the other reflectors, which have them too.
 */
export class NodePresence {
	readonly #nodeName: string;
	readonly #log: Log;
	#state: "unknown" | "denied" | "absent" | "present" = "unknown";

	constructor(nodeName: string, log: Log) {
		this.#nodeName = nodeName;
		this.#log = log;
	}

	slot(): ProblemSlot {
		return {
			report: (error) => {
				if (!(error instanceof ApiError) || !isAboutNodes(error)) return;
				if (this.#state === "denied") return;
				this.#state = "denied";
				this.#log.warn({ node: this.#nodeName, reason: error.message }, "node object unreadable");
			},
			clear: () => {},
		};
	}

	/** To be called whenever the list of nodes with this name may be another one. */
	see(isThere: boolean): void {
		const state = isThere ? "present" : "absent";
		if (state === this.#state) return;
		const wasTrouble = this.#state === "absent" || this.#state === "denied";
		this.#state = state;
		if (!isThere) {
			this.#log.warn(
				{ node: this.#nodeName },
				"no node of this name in the cluster; is --hostname-override right?",
			);
		} else if (wasTrouble) {
			this.#log.info({ node: this.#nodeName }, "node object found");
		}
	}
}

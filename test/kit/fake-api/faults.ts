import type { IncomingHttpHeaders, OutgoingHttpHeaders } from "node:http";

/** What one request to the fake server asked for. */
export interface SeenRequest {
	readonly path: string;
	readonly plural: string;
	readonly verb: "list" | "watch" | "get";
	readonly query: Readonly<Record<string, string>>;
	readonly headers: IncomingHttpHeaders;
	/** Which TCP connection it came over, counted from 1. */
	readonly connection: number;
	readonly httpVersion: string;
}

/** What to do instead of answering. */
export type Fault =
	/** An HTTP status with a Status object, or with the body given. */
	| {
			readonly status: number;
			readonly reason?: string;
			readonly message?: string;
			readonly headers?: OutgoingHttpHeaders;
			readonly body?: string;
			/** "ResourceVersionTooLarge". */
			readonly cause?: string;
	  }
	/** The request is taken and nothing is ever sent. */
	| "hang"
	/** The connection is reset. */
	| "reset"
	/** 200 and then no byte. */
	| "stall"
	/** 200 and an end at once, without an event. */
	| "empty"
	/** 200 and a line without an end. */
	| "endless-line"
	/** Wait this long, then answer as if nothing were. */
	| { readonly delayMs: number };

export interface FaultRule {
	readonly fault: Fault;
	/** Only requests of this kind; undefined: all. */
	readonly plural?: string;
	readonly verb?: SeenRequest["verb"];
	/** How often; default once. Infinity: until removed. */
	readonly times?: number;
	/** Only requests that have this query parameter. */
	readonly withParameter?: string;
}

/** The faults that wait for their requests, in order. */
export class FaultPlan {
	#rules: { rule: FaultRule; left: number }[] = [];

	/** @returns takes the rule back. */
	add(rule: FaultRule): () => void {
		const entry = { rule, left: rule.times ?? 1 };
		this.#rules.push(entry);
		return () => {
			this.#rules = this.#rules.filter((other) => other !== entry);
		};
	}

	clear(): void {
		this.#rules = [];
	}

	next(request: SeenRequest): Fault | undefined {
		const entry = this.#rules.find(({ rule, left }) => {
			if (left <= 0) return false;
			if (rule.plural !== undefined && rule.plural !== request.plural) return false;
			if (rule.withParameter !== undefined && !(rule.withParameter in request.query)) return false;
			return rule.verb === undefined || rule.verb === request.verb;
		});
		if (entry === undefined) return undefined;
		entry.left -= 1;
		return entry.rule.fault;
	}
}

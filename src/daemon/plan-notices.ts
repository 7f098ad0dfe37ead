import type { ServicePortPlan } from "../services/plan-service-ports.ts";
import type { UnservedPort } from "../services/unserved-port.ts";
import type { Log } from "../shared/log.ts";

const MESSAGES: Readonly<Record<UnservedPort["reason"], string>> = {
	sctp: "SCTP is not relayed; the Service's other ports are",
	conflict: "a Service claims what another one has; it is not served there",
	"address-refused": "a Service has an address that is not served",
	"port-taken": "a Service's port is taken on this node; it is not served there, trying again",
	"endpoint-is-virtual-address": "an endpoint is a Service's own address; it is not used",
};

/** Lines per plan; what is over that is counted in one more. */
const MAX_LINES = 50;

/** Says once what a plan does not serve, and once when that is over. */
export class PlanNotices {
	readonly #log: Log;
	#told: ReadonlyMap<string, UnservedPort> = new Map();

	constructor(log: Log) {
		this.#log = log;
	}

	report({ unserved }: ServicePortPlan): void {
		const now = new Map(
			unserved.map((each) => [`${each.reason} ${each.name} ${each.detail}`, each]),
		);
		const news = [...now].filter(([key]) => !this.#told.has(key)).map(([, each]) => each);
		for (const { name, reason, detail } of news.slice(0, MAX_LINES)) {
			this.#log.warn({ service: name, detail }, MESSAGES[reason]);
		}
		if (news.length > MAX_LINES) {
			this.#log.warn({ more: news.length - MAX_LINES }, "more ServicePorts are not served");
		}
		const over = [...this.#told].filter(([key]) => !now.has(key)).map(([, each]) => each);
		for (const { name, reason, detail } of over.slice(0, MAX_LINES)) {
			this.#log.info({ service: name, reason, detail }, "no longer so");
		}
		this.#told = now;
	}
}

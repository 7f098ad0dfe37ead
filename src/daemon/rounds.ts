import type { ServicePortPlan } from "../services/plan-service-ports.ts";
import { LINK_LOOK_MS, type NodeWatch } from "./node-watch.ts";
import type { Sync } from "./sync.ts";

/** The rules are looked at at least this often: a look costs two processes, a flush is an outage. */
const MAX_VERIFY_INTERVAL_MS = 10_000;

export interface RoundsOptions {
	readonly node: NodeWatch;
	readonly sync: Pick<Sync, "request" | "requestVerify">;
	/** The plan that was made last. */
	plan(): ServicePortPlan | undefined;
	/** The rules may be wrong no longer than this, in milliseconds. */
	readonly rulesPeriodMs: number;
}

/** What is looked at again and again, whatever the sources say: the rules, and the node's own network. */
export class Rounds {
	readonly #options: RoundsOptions;
	readonly #timers: readonly NodeJS.Timeout[];

	/** Begins at once. */
	constructor(options: RoundsOptions) {
		this.#options = options;
		const periodMs = Math.min(options.rulesPeriodMs, MAX_VERIFY_INTERVAL_MS);
		this.#timers = [
			setInterval(() => this.#round(), periodMs),
			setInterval(() => this.#lookAtLinks(), LINK_LOOK_MS),
		];
	}

	stop(): void {
		for (const timer of this.#timers) clearInterval(timer);
	}

	#round(): void {
		const { node, sync } = this.#options;
		const plan = this.#options.plan();
		const waitsForPorts = plan?.unserved.some(({ reason }) => reason === "port-taken") === true;
		if (waitsForPorts) node.askPortsAgain();
		if (node.refresh() || waitsForPorts) sync.request();
		sync.requestVerify();
	}

	/** A Pod's interface may be the first without an address: its connections should not wait long. */
	#lookAtLinks(): void {
		const { node, sync } = this.#options;
		if (!node.hasNewLinks() && !node.hasSuspects()) return;
		if (node.refresh()) sync.request();
	}
}

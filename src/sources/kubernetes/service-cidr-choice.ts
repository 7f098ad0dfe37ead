import { admitServiceCidr } from "../../services/admit-service-cidr.ts";
import type { ServiceCidr } from "../../services/objects.ts";
import type { Log } from "../../shared/log.ts";
import { ApiError } from "./api-errors.ts";
import type { ReflectorLimits } from "./limits.ts";
import { one, type Reading } from "./object-store.ts";
import type { ProblemSlot } from "./problems.ts";
import type { Choice } from "./reflector.ts";
import { type Resource, serviceCidrsResource } from "./resources.ts";

/** Where a cluster does not serve them, it is asked again and again, but not often: it may be upgraded. */
const MAX_WAIT_MS = 600_000;

const VERSIONS = ["v1", "v1beta1"] as const;

export const SERVICE_CIDR_READING: Reading<ServiceCidr> = {
	kind: "ServiceCIDR",
	admit: one(admitServiceCidr),
};

/**
 * How ServiceCIDRs are read: v1 (from Kubernetes 1.33), else v1beta1 (1.31 and 1.32). Without them only
 * packets to addresses that no Service has are not dropped, so that a cluster which has none or does
 * not show them is told of once and is in no trouble.
 *
 * Failures that are not about them are left to the other reflectors, which have them too.
 */
export class ServiceCidrChoice {
	readonly #log: Log;
	readonly #refused = new Set<string>();
	#last: (typeof VERSIONS)[number] = "v1";
	#said: "nothing" | "absent" | "denied" = "nothing";

	constructor(log: Log) {
		this.#log = log;
	}

	choose(refused: Resource | undefined): Choice<ServiceCidr> {
		if (refused !== undefined) this.#refused.add(this.#last);
		if (this.#refused.size === VERSIONS.length) {
			this.#refused.clear();
			this.#say("absent", "no version of them is served");
		}
		this.#last = VERSIONS.find((version) => !this.#refused.has(version)) ?? "v1";
		return { resource: serviceCidrsResource(this.#last), reading: SERVICE_CIDR_READING };
	}

	slot(): ProblemSlot {
		return {
			report: (error) => {
				if (!(error instanceof ApiError)) return;
				const { status, code, message } = error;
				if (status === 403 || code === "wrong-kind") this.#say("denied", message);
			},
			clear: () => {
				this.#said = "nothing";
			},
		};
	}

	limits(limits: ReflectorLimits): ReflectorLimits {
		// They change once in a cluster's life: not worth the short watches of a quiet collection.
		return { ...limits, watchIdleMs: limits.nodeWatchIdleMs, maxWaitMs: MAX_WAIT_MS };
	}

	#say(what: "absent" | "denied", reason: string): void {
		if (this.#said === what) return;
		this.#said = what;
		const fields = { reason };
		if (what === "denied") this.#log.warn(fields, "ServiceCIDRs are unreadable");
		else this.#log.info(fields, "cluster has no ServiceCIDRs");
	}
}

import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import { IP_FAMILIES, type IpFamily } from "../services/address.ts";
import { type Clock, systemClock } from "../shared/clock.ts";
import type { HealthPath } from "./health.ts";

/** kube-proxy's own: 0.001 s doubled, 15 times. */
const SYNC_BUCKETS = Array.from({ length: 15 }, (_, power) => 0.001 * 2 ** power);

/** How kube-proxy writes the families in labels and JSON. */
export function kubernetesFamily(family: IpFamily): "IPv4" | "IPv6" {
	return family === "ipv4" ? "IPv4" : "IPv6";
}

/**
 * The series that dashboards made for kube-proxy look for, with its names, labels and meaning,
 * as far as a userspace proxy has the same thing.
 */
export class SyncMetrics {
	readonly #clock: Clock;
	readonly #duration: Histogram<"ip_family">;
	readonly #lastSync: Gauge<"ip_family">;
	readonly #lastQueued: Gauge<"ip_family">;
	readonly #rules: Gauge<"ip_family" | "table">;
	readonly #restoreFailures: Counter<"ip_family">;
	readonly #drift: Counter<"ip_family">;
	readonly #serviceChanges: ChangeSeries;
	readonly #endpointChanges: ChangeSeries;
	readonly #healthz: Counter<"code">;
	readonly #livez: Counter<"code">;

	constructor(registry: Registry, clock: Clock = systemClock) {
		this.#clock = clock;
		const registers = [registry];
		const perFamily = { labelNames: ["ip_family"] as const, registers };
		const name = (rest: string): string => `kubeproxy_sync_proxy_rules_${rest}`;
		this.#duration = new Histogram({
			name: name("duration_seconds"),
			help: "How long applying the packet rules took, failed tries included",
			buckets: SYNC_BUCKETS,
			...perFamily,
		});
		this.#lastSync = new Gauge({
			name: name("last_timestamp_seconds"),
			help: "When the packet rules were last applied or found to be as wanted",
			...perFamily,
		});
		this.#lastQueued = new Gauge({
			name: name("last_queued_timestamp_seconds"),
			help: "When a sync of the packet rules was last asked for",
			...perFamily,
		});
		this.#rules = new Gauge({
			name: name("iptables_total"),
			help: "Packet rules of ours in force",
			labelNames: ["ip_family", "table"],
			registers,
		});
		this.#restoreFailures = new Counter({
			name: name("iptables_restore_failures_total"),
			help: "Failed runs of iptables-restore",
			...perFamily,
		});
		this.#drift = new Counter({
			name: "kube_userproxy_rules_drift_repairs_total",
			help: "Times that the packet rules had been changed by somebody else and were put right",
			...perFamily,
		});
		this.#serviceChanges = new ChangeSeries(registry, name("service_changes"), "Service");
		this.#endpointChanges = new ChangeSeries(registry, name("endpoint_changes"), "EndpointSlice");
		this.#healthz = healthCounter("healthz", registers);
		this.#livez = healthCounter("livez", registers);
		for (const family of IP_FAMILIES) {
			this.#restoreFailures.inc({ ip_family: kubernetesFamily(family) }, 0);
			this.#drift.inc({ ip_family: kubernetesFamily(family) }, 0);
		}
	}

	/** To be called when a source has changed, with how many objects of either kind. */
	changesSeen({
		services,
		endpoints,
	}: {
		readonly services: number;
		readonly endpoints: number;
	}): void {
		this.#serviceChanges.seen(services);
		this.#endpointChanges.seen(endpoints);
	}

	/** The listeners have taken over the newest state: nothing is pending. */
	changesApplied(): void {
		this.#serviceChanges.applied();
		this.#endpointChanges.applied();
	}

	rulesQueued(families: readonly IpFamily[]): void {
		for (const family of families) {
			this.#lastQueued.set({ ip_family: kubernetesFamily(family) }, this.#nowSeconds());
		}
	}

	/** A try to apply, or verify, the rules of a family has ended. */
	rulesSynced({ family, durationMs, succeeded }: RulesSync): void {
		const labels = { ip_family: kubernetesFamily(family) };
		this.#duration.observe(labels, durationMs / 1_000);
		if (succeeded) this.#lastSync.set(labels, this.#nowSeconds());
	}

	restoreFailed(family: IpFamily): void {
		this.#restoreFailures.inc({ ip_family: kubernetesFamily(family) });
	}

	/** @param counts rules per table: `{ nat: 12, filter: 3 }`. */
	rulesInForce(family: IpFamily, counts: Readonly<Record<string, number>>): void {
		for (const [table, count] of Object.entries(counts)) {
			this.#rules.set({ ip_family: kubernetesFamily(family), table }, count);
		}
	}

	driftRepaired(family: IpFamily): void {
		this.#drift.inc({ ip_family: kubernetesFamily(family) });
	}

	healthAnswered(path: HealthPath, status: number): void {
		if (path === "/healthz") this.#healthz.inc({ code: String(status) });
		if (path === "/livez") this.#livez.inc({ code: String(status) });
	}

	#nowSeconds(): number {
		return this.#clock.wallMs() / 1_000;
	}
}

export interface RulesSync {
	readonly family: IpFamily;
	readonly durationMs: number;
	readonly succeeded: boolean;
}

/** kube-proxy's pair: changes in all, and those that are not in effect yet. */
class ChangeSeries {
	readonly #total: Counter;
	readonly #pending: Gauge;

	constructor(registry: Registry, name: string, kind: string) {
		const registers = [registry];
		this.#total = new Counter({ name: `${name}_total`, help: `${kind} changes seen`, registers });
		this.#pending = new Gauge({
			name: `${name}_pending`,
			help: `${kind} changes seen and not yet in effect`,
			registers,
		});
	}

	seen(count: number): void {
		this.#total.inc(count);
		this.#pending.inc(count);
	}

	applied(): void {
		this.#pending.set(0);
	}
}

function healthCounter(path: string, registers: Registry[]): Counter<"code"> {
	return new Counter({
		name: `kubeproxy_proxy_${path}_total`,
		help: `Answers of /${path}, by status code`,
		labelNames: ["code"],
		registers,
	});
}

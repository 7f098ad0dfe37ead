import type { Service } from "../../services/objects.ts";
import type { Log } from "../../shared/log.ts";

/**
 * Knows whether the API server is reached through a Service's ClusterIP. Such an address works only
 * while some service proxy runs on this node; where that is to be us, we may wait for ourselves.
 */
export class ClusterAddress {
	readonly #log: Log;
	readonly #told: string | undefined;
	#learned: readonly string[] = [];
	#used: string | undefined;
	#said = false;

	/** @param env what every pod is told: the ClusterIP of the Service `default/kubernetes`. */
	constructor(env: Readonly<Record<string, string | undefined>>, log: Log) {
		this.#told = env["KUBERNETES_SERVICE_HOST"];
		this.#log = log;
	}

	/** The server that requests go to now. */
	use(origin: string): void {
		this.#used = origin;
	}

	/** Looks for `default/kubernetes`, and says once when it is what we talk to. */
	learn(services: Iterable<Service>): void {
		for (const { namespace, name, clusterIps } of services) {
			if (namespace === "default" && name === "kubernetes") this.#learned = clusterIps;
		}
		if (this.#said || this.#used === undefined) return;
		if (!this.#learned.includes(hostOf(this.#used))) return;
		this.#said = true;
		this.#log.warn(
			{ server: this.#used },
			"the API server's address is a Service, which nobody may serve when this node starts; better give its own address with --master or a kubeconfig",
		);
	}

	isClusterIp(origin: string): boolean {
		const host = hostOf(origin);
		return host === this.#told || this.#learned.includes(host);
	}
}

function hostOf(origin: string): string {
	return new URL(origin).hostname.replaceAll(/[[\]]/g, "");
}

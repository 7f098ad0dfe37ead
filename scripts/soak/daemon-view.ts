import { readdirSync, readlinkSync } from "node:fs";
import type { DaemonProcess } from "../../test/kit/daemon-process.ts";
import { residentBytes } from "../bench/process-use.ts";
import type { Helper } from "./helper.ts";
import { fullName, type SoakService } from "./services.ts";
import type { Counted, Descriptors, Sample } from "./verdict.ts";

const METRICS_PORT = 10_249;

/** What of a daemon can be seen from outside, and of its threads through the inspector. */
export class DaemonView {
	readonly #daemon: DaemonProcess;
	readonly #inspector: Helper;

	constructor(daemon: DaemonProcess, inspector: Helper) {
		this.#daemon = daemon;
		this.#inspector = inspector;
	}

	/** @param seconds since the traffic began. */
	async sample(seconds: number): Promise<Sample> {
		const heaps = await this.#ask("heap");
		if (!Array.isArray(heaps)) throw new TypeError("The inspector told no heaps");
		const metrics = await this.metrics();
		return {
			seconds,
			heapBytes: heaps.map(Number).reduce((sum, bytes) => sum + bytes, 0),
			residentBytes: residentBytes([this.#daemon.pid]),
			descriptors: this.#daemon.openDescriptors(),
			connections: metrics.sum("kube_userproxy_tcp_connections"),
			udpFlows: metrics.sum("kube_userproxy_udp_flows"),
			...metrics.totals(),
		};
	}

	/** Makes one of its workers end by an error. */
	async failWorker(): Promise<void> {
		await this.#ask("fail");
	}

	/** How many descriptors it has open, by kind. */
	descriptors(): Descriptors {
		const kinds = new Map<string, number>();
		const folder = `/proc/${this.#daemon.pid}/fd`;
		for (const fd of readdirSync(folder)) {
			const kind = kindOf(`${folder}/${fd}`);
			if (kind !== undefined) kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
		}
		return kinds;
	}

	async metrics(): Promise<Metrics> {
		return new Metrics((await this.#daemon.get("/metrics", METRICS_PORT)).body);
	}

	async #ask(question: string): Promise<unknown> {
		const answer = (await this.#inspector.ask(question)) as { gives?: unknown; failed?: string };
		if (answer.failed !== undefined) throw new Error(answer.failed);
		return answer.gives;
	}
}

/** One answer of /metrics. */
export class Metrics {
	readonly #lines: readonly string[];

	constructor(body: string) {
		this.#lines = body.split("\n");
	}

	/** Over all series of the name whose labels hold all of these. */
	sum(name: string, ...labels: readonly string[]): number {
		return this.#lines
			.filter((line) => line.startsWith(`${name} `) || line.startsWith(`${name}{`))
			.filter((line) => labels.every((label) => line.includes(label)))
			.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" "))), 0);
	}

	/** Connections and flows that there are now, and connections that wait for descriptors. */
	relayed(): number {
		return ["tcp_connections", "udp_flows", "waiting_connections"]
			.map((name) => this.sum(`kube_userproxy_${name}`))
			.reduce((sum, count) => sum + count);
	}

	/** Of all Services: connections and flows that are over, and bytes both ways. */
	totals(): { readonly served: number; readonly movedBytes: number } {
		return {
			served: this.sum("kube_userproxy_connections_total"),
			movedBytes: this.sum("kube_userproxy_bytes_total"),
		};
	}

	/** What was counted of a Service. */
	of(service: SoakService): Counted {
		const label = `service="${fullName(service)}"`;
		const bytes = (direction: string) =>
			this.sum("kube_userproxy_bytes_total", label, `direction="${direction}"`);
		return {
			connections: this.sum("kube_userproxy_connections_total", label),
			bytesIn: bytes("in"),
			bytesOut: bytes("out"),
		};
	}
}

/** Undefined where it is closed by now. */
function kindOf(path: string): string | undefined {
	try {
		const target = readlinkSync(path);
		return target.startsWith("/") ? "file" : target.slice(0, target.indexOf(":"));
	} catch {
		return undefined;
	}
}

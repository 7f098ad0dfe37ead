import type { Admission } from "../../services/admission.ts";
import type { EndpointSlice } from "../../services/objects.ts";
import type { Log } from "../../shared/log.ts";
import { chooseSliceVersion } from "./discovery.ts";
import { one } from "./object-store.ts";
import type { Choice } from "./reflector.ts";
import { type Resource, type SliceVersion, slicesResource } from "./resources.ts";
import type { Transport } from "./transport.ts";

export interface SliceChoiceOptions {
	readonly transport: Transport;
	readonly admit: {
		readonly endpointSlice: (raw: unknown) => Admission<EndpointSlice>;
		readonly endpoints: (raw: unknown) => Admission<readonly EndpointSlice[]>;
	};
	readonly timeoutMs: number;
	readonly log: Log;
}

/** Chooses what endpoints are read from, and chooses again when the server stops to serve it. */
export class SliceChoice {
	readonly #options: SliceChoiceOptions;
	readonly #refused = new Set<SliceVersion>();
	#last: SliceVersion | undefined;

	constructor(options: SliceChoiceOptions) {
		this.#options = options;
	}

	/**
	 * @param refused the last choice, where the server answered it with 404.
	 * @throws {ApiError} when the server cannot be asked.
	 */
	async choose(refused: Resource | undefined, signal: AbortSignal): Promise<Choice<EndpointSlice>> {
		const { transport, timeoutMs, admit, log } = this.#options;
		if (refused !== undefined && this.#last !== undefined) this.#refused.add(this.#last);
		// Endpoints are in every cluster: a 404 there says that all of this was something passing.
		if (this.#refused.has("endpoints")) this.#refused.clear();
		const version = await chooseSliceVersion(transport, this.#refused, timeoutMs, signal);
		if (version === "endpoints" || version === "v1beta1") {
			if (version !== this.#last) log.info({ version }, "cluster is old, reading older endpoints");
		}
		this.#last = version;
		const resource = slicesResource(version);
		const reading =
			version === "endpoints"
				? { kind: "Endpoints", admit: admit.endpoints }
				: { kind: "EndpointSlice", admit: one(admit.endpointSlice) };
		return { resource, reading };
	}
}

import type { IpRange } from "../../src/services/ip-range.ts";
import type { NodeView } from "../../src/services/node-view.ts";
import { anAddress } from "./bindings.ts";
import { aRange } from "./ranges.ts";

interface ViewFields {
	readonly nodeName?: string;
	readonly addresses?: readonly string[];
	readonly broadcastAddresses?: readonly string[];
	/** Undefined or left out: every external IP is allowed. */
	readonly allowedExternalIps?: readonly string[];
	readonly isPortTaken?: NodeView["isPortTaken"];
}

/** A node as the model sees it: "node1" with 10.1.0.1, on which no port is taken. */
export function aView(fields: ViewFields = {}): NodeView {
	const { nodeName = "node1", isPortTaken = () => false } = fields;
	return {
		nodeName,
		addresses: new Set((fields.addresses ?? ["127.0.0.1", "::1", "10.1.0.1"]).map(anAddress)),
		broadcastAddresses: new Set((fields.broadcastAddresses ?? []).map(anAddress)),
		allowedExternalIps: fields.allowedExternalIps?.map((text): IpRange => aRange(text)),
		isPortTaken,
	};
}

/** The one view of tests that are not about the node: the same object each time. */
export const plainView: NodeView = aView();

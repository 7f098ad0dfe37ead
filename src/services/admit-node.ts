import { type IpAddress, parseIpAddress } from "./address.ts";
import type { Admission } from "./admission.ts";
import { labelOf, readLabels } from "./admit-metadata.ts";
import { FieldProblems, isRawObject, type RawObject } from "./field-problems.ts";
import { type IpRange, parseIpRange } from "./ip-range.ts";
import { isDnsSubdomain } from "./names.ts";
import type { NodeInfo } from "./objects.ts";

/** The order in which kube-proxy prefers them. */
const ADDRESS_TYPES = ["InternalIP", "ExternalIP"] as const;

/** Far more than any node reports. */
const MAX_ADDRESSES = 1_000;

/** Judges a core/v1 Node. Never throws. */
export function admitNode(raw: unknown): Admission<NodeInfo> {
	const problems = new FieldProblems();
	const object = problems.object("", raw) ?? {};
	const metadata = problems.object("metadata", object["metadata"]) ?? {};
	const name = problems.string("metadata.name", metadata["name"], "");
	if (!isDnsSubdomain(name)) {
		problems.add("metadata.name", "a DNS name in lower case", metadata["name"]);
	}
	const labels = readLabels(metadata, problems);
	const status = isRawObject(object["status"]) ? object["status"] : {};
	return problems.admit({
		name,
		zone: labelOf(labels, "topology.kubernetes.io/zone"),
		addresses: readAddresses(status, problems),
		podRanges: readPodRanges(isRawObject(object["spec"]) ? object["spec"] : {}, problems),
	});
}

/** Only for telling local Pods apart: what is no range is left out. */
function readPodRanges(spec: RawObject, problems: FieldProblems): readonly IpRange[] {
	const listed = problems.list("spec.podCIDRs", spec["podCIDRs"], MAX_ADDRESSES);
	return (listed.length > 0 ? listed : [spec["podCIDR"]])
		.map((text) => (typeof text === "string" ? parseIpRange(text) : undefined))
		.filter((range) => range !== undefined);
}

function readAddresses(status: RawObject, problems: FieldProblems): readonly IpAddress[] {
	const items = problems
		.list("status.addresses", status["addresses"], MAX_ADDRESSES)
		.filter((item) => isRawObject(item));
	return ADDRESS_TYPES.flatMap((type) =>
		items
			.filter((item) => item["type"] === type)
			.map((item) => (typeof item["address"] === "string" ? item["address"] : ""))
			.map((text) => parseIpAddress(text))
			.filter((address) => address !== undefined),
	);
}

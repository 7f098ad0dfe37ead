import type { IpFamily } from "./address.ts";
import type { Admission } from "./admission.ts";
import { FieldProblems, isRawObject } from "./field-problems.ts";
import { familyOfRange, type IpRange, parseIpRange, prefixLengthOf } from "./ip-range.ts";
import { isDnsSubdomain } from "./names.ts";
import type { ServiceCidr } from "./objects.ts";

/** One for each family (`spec.cidrs` of networking.k8s.io/v1). */
const MAX_RANGES = 2;

/**
 * No cluster has a wider range of Services; and what is in there and no Service's is dropped, which
 * must not be half of the world by a typo.
 */
const MIN_PREFIX: Readonly<Record<IpFamily, number>> = { ipv4: 8, ipv6: 48 };

/** Judges a networking.k8s.io ServiceCIDR, v1 or v1beta1. Never throws. */
export function admitServiceCidr(raw: unknown): Admission<ServiceCidr> {
	const problems = new FieldProblems();
	const object = problems.object("", raw) ?? {};
	const metadata = problems.object("metadata", object["metadata"]) ?? {};
	const name = problems.string("metadata.name", metadata["name"], "");
	if (!isDnsSubdomain(name)) {
		problems.add("metadata.name", "a DNS name in lower case", metadata["name"]);
	}
	const spec = isRawObject(object["spec"]) ? object["spec"] : {};
	const ranges: IpRange[] = [];
	for (const [index, text] of problems.list("spec.cidrs", spec["cidrs"], MAX_RANGES).entries()) {
		const range = typeof text === "string" ? parseIpRange(text) : undefined;
		const field = `spec.cidrs[${index}]`;
		if (range === undefined) problems.add(field, "an IP range in CIDR notation", text);
		else if (prefixLengthOf(range) < MIN_PREFIX[familyOfRange(range)]) {
			problems.add(field, `a prefix of at least /${MIN_PREFIX[familyOfRange(range)]}`, text);
		} else ranges.push(range);
	}
	return problems.admit({ name, ranges });
}

import { type IpAddress, ipFamilyOf, parseIpAddress } from "./address.ts";
import {
	type FieldProblems,
	isNoItem,
	isRawObject,
	type RawObject,
	showValue,
} from "./field-problems.ts";
import { type IpRange, parseIpRange } from "./ip-range.ts";
import { whyNoClusterIp } from "./unusable-address.ts";

/** Far more than anybody gives one Service. */
const MAX_ADDRESSES = 1_000;

/** clusterIP "None": there is no address to serve. */
export function isHeadless({ clusterIP, clusterIPs }: RawObject): boolean {
	if ((clusterIP ?? "") !== "") return clusterIP === "None";
	return Array.isArray(clusterIPs) && clusterIPs[0] === "None";
}

/** At most one per family; empty for a headless Service. */
export function readClusterIps(spec: RawObject, problems: FieldProblems): readonly IpAddress[] {
	const first = problems.string("spec.clusterIP", spec["clusterIP"], "");
	const listed = problems.list("spec.clusterIPs", spec["clusterIPs"], 2);
	if (isHeadless(spec)) {
		if (listed.length > 0 && (listed.length > 1 || listed[0] !== "None")) {
			problems.add("spec.clusterIPs", 'nothing but "None", as spec.clusterIP is', listed[0]);
		}
		return [];
	}
	if ((spec["clusterIP"] ?? "") === "" && isNoItem(spec["clusterIPs"])) {
		problems.add(
			"spec.clusterIP",
			"an IP address (outside a cluster nothing allocates one: write it into the manifest)",
			spec["clusterIP"],
		);
		return [];
	}
	return listed.length === 0 ? readSingle(first, problems) : readListed(first, listed, problems);
}

/** Of what is no text, that has been said. */
function readSingle(text: string, problems: FieldProblems): readonly IpAddress[] {
	return text === "" ? [] : readClusterIp("spec.clusterIP", text, problems);
}

function readListed(
	first: string,
	listed: readonly unknown[],
	problems: FieldProblems,
): readonly IpAddress[] {
	if (first !== "" && listed[0] !== first) {
		const wanted = `the same address as spec.clusterIP, ${showValue(first)}`;
		problems.add("spec.clusterIPs[0]", wanted, listed[0]);
	}
	const addresses = listed.flatMap((text, index) =>
		readClusterIp(`spec.clusterIPs[${index}]`, text, problems),
	);
	const [one, two] = addresses;
	if (one !== undefined && two !== undefined && ipFamilyOf(one) === ipFamilyOf(two)) {
		problems.add("spec.clusterIPs[1]", "an address of the other IP family", two);
	}
	return addresses;
}

function readClusterIp(field: string, text: unknown, problems: FieldProblems): IpAddress[] {
	const address = typeof text === "string" ? parseIpAddress(text) : undefined;
	if (address === undefined) {
		problems.add(field, "an IP address", text);
		return [];
	}
	const reason = whyNoClusterIp(address);
	if (reason === undefined) return [address];
	problems.add(field, `an address that is not ${reason}`, text);
	return [];
}

/**
 * `spec.externalIPs`. Which of them are served is for the plan to say, one by one; only what is no
 * address at all is a problem of the object.
 */
export function readExternalIps(spec: RawObject, problems: FieldProblems): readonly IpAddress[] {
	const field = "spec.externalIPs";
	const listed = problems.list(field, spec["externalIPs"], MAX_ADDRESSES);
	const addresses = listed.flatMap((text, index) => readIp(`${field}[${index}]`, text, problems));
	return [...new Set(addresses)];
}

/** The addresses of `status.loadBalancer` that are captured: those with an IP and without ipMode Proxy. */
export function readLoadBalancerIps(
	status: unknown,
	problems: FieldProblems,
): readonly IpAddress[] {
	const loadBalancer = isRawObject(status) ? status["loadBalancer"] : undefined;
	if (!isRawObject(loadBalancer)) return [];
	const field = "status.loadBalancer.ingress";
	const items = problems.list(field, loadBalancer["ingress"], MAX_ADDRESSES);
	const addresses = items.flatMap((item, index) => {
		const at = `${field}[${index}]`;
		const ingress = problems.object(at, item) ?? {};
		const mode = problems.oneOf(`${at}.ipMode`, ingress["ipMode"], ["VIP", "Proxy"], "VIP");
		const ip = problems.string(`${at}.ip`, ingress["ip"], "");
		// The load balancer itself has such an address, or only a name: nothing comes here as it was sent.
		return ip === "" || mode === "Proxy" ? [] : readIp(`${at}.ip`, ip, problems);
	});
	return [...new Set(addresses)];
}

/** `spec.loadBalancerSourceRanges`; blanks around a range mean nothing, as in kube-proxy. */
export function readSourceRanges(spec: RawObject, problems: FieldProblems): readonly IpRange[] {
	const field = "spec.loadBalancerSourceRanges";
	const listed = problems.list(field, spec["loadBalancerSourceRanges"], MAX_ADDRESSES);
	return listed.flatMap((text, index) => {
		const range = typeof text === "string" ? parseIpRange(text.trim()) : undefined;
		if (range !== undefined) return [range];
		problems.add(`${field}[${index}]`, "a range such as 203.0.113.0/24", text);
		return [];
	});
}

function readIp(field: string, text: unknown, problems: FieldProblems): readonly IpAddress[] {
	const address = typeof text === "string" ? parseIpAddress(text.trim()) : undefined;
	if (address !== undefined) return [address];
	problems.add(field, "an IP address", text);
	return [];
}

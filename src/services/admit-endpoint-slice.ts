import { type IpAddress, type IpFamily, ipFamilyOf, parseIpAddress } from "./address.ts";
import type { Admission } from "./admission.ts";
import { labelOf, readLabel, readMetadata } from "./admit-metadata.ts";
import { readPortName, readProtocol } from "./admit-service-ports.ts";
import { FieldProblems, isRawObject, type RawObject } from "./field-problems.ts";
import type { EndpointSlice, SliceEndpoint, SlicePort } from "./objects.ts";
import { isPort } from "./port.ts";
import { whyNoEndpoint } from "./unusable-address.ts";

/** Names the Service that a slice belongs to. */
const SERVICE_NAME_LABEL = "kubernetes.io/service-name";

/** The API's own limits (discovery.k8s.io validation). */
const MAX_ENDPOINTS = 1_000;
const MAX_SLICE_PORTS = 20_000;
const MAX_HINTS = 8;

/**
 * Judges a discovery.k8s.io EndpointSlice, v1 or v1beta1, as the API server would. Never throws.
 *
 * A slice that is legal but of no use to a proxy is admitted with `serviceName` "" (no owner) or
 * without endpoints (addressType FQDN): no Service will find anything in it.
 */
export function admitEndpointSlice(raw: unknown): Admission<EndpointSlice> {
	const problems = new FieldProblems();
	const object = problems.object("", raw) ?? {};
	const { namespace, name, labels } = readMetadata(object, problems);
	const addressType = problems.oneOf(
		"addressType",
		object["addressType"],
		["IPv4", "IPv6", "FQDN"],
		undefined,
	);
	if (addressType === undefined && (object["addressType"] ?? "") === "") {
		problems.add("addressType", "IPv4 or IPv6", object["addressType"]);
	}
	const family: IpFamily = addressType === "IPv6" ? "ipv6" : "ipv4";
	const isIp = addressType !== "FQDN";
	return problems.admit({
		namespace,
		name,
		serviceName: readLabel(labels, SERVICE_NAME_LABEL, problems) ?? "",
		family,
		ports: readPorts(object, problems),
		endpoints: isIp ? readEndpoints(object, family, problems) : [],
	});
}

function readPorts(object: RawObject, problems: FieldProblems): readonly SlicePort[] {
	const items = problems.list("ports", object["ports"], MAX_SLICE_PORTS);
	const keys = new Set<string>();
	return items.flatMap((item, index): SlicePort[] => {
		const field = `ports[${index}]`;
		const fields = problems.object(field, item);
		if (fields === undefined) return [];
		const name = readPortName(`${field}.name`, fields["name"], problems);
		const protocol = readProtocol(`${field}.protocol`, fields["protocol"], problems);
		const port = fields["port"];
		// Else addresses would be multiplied by ports.
		const key = `${name}/${protocol}`;
		if (keys.has(key)) problems.add(`${field}.name`, "a name that no other port has", name);
		keys.add(key);
		// An absent port means "every port", which no service proxy can serve.
		if (port === undefined || port === null) return [];
		if (!isPort(port)) {
			problems.add(`${field}.port`, "an integer in 1..65535", port);
			return [];
		}
		return [{ name, protocol, port }];
	});
}

function readEndpoints(
	object: RawObject,
	family: IpFamily,
	problems: FieldProblems,
): readonly SliceEndpoint[] {
	const items = problems.list("endpoints", object["endpoints"], MAX_ENDPOINTS);
	return items.flatMap((item, index) => {
		const endpoint = readEndpoint(`endpoints[${index}]`, item, family, problems);
		return endpoint === undefined ? [] : [endpoint];
	});
}

function readEndpoint(
	field: string,
	item: unknown,
	family: IpFamily,
	problems: FieldProblems,
): SliceEndpoint | undefined {
	const fields = problems.object(field, item);
	if (fields === undefined) return undefined;
	const conditions =
		fields["conditions"] === undefined || fields["conditions"] === null
			? {}
			: (problems.object(`${field}.conditions`, fields["conditions"]) ?? {});
	const address = readAddress(`${field}.addresses`, fields["addresses"], family, problems);
	// v1beta1 has node and zone in a map that v1 calls deprecatedTopology.
	const topology = isRawObject(fields["topology"]) ? fields["topology"] : {};
	const target = isRawObject(fields["targetRef"]) ? fields["targetRef"] : {};
	const endpoint = {
		ready: problems.boolean(`${field}.conditions.ready`, conditions["ready"], true),
		serving: problems.boolean(`${field}.conditions.serving`, conditions["serving"], true),
		terminating: problems.boolean(
			`${field}.conditions.terminating`,
			conditions["terminating"],
			false,
		),
		nodeName:
			problems.string(`${field}.nodeName`, fields["nodeName"], undefined) ??
			labelOf(topology, "kubernetes.io/hostname"),
		zone:
			problems.string(`${field}.zone`, fields["zone"], undefined) ??
			labelOf(topology, "topology.kubernetes.io/zone"),
		podName: target["kind"] === "Pod" ? labelOf(target, "name") : undefined,
		...readHints(`${field}.hints`, fields["hints"], problems),
	};
	return address === undefined ? undefined : { address, ...endpoint };
}

function readHints(
	field: string,
	value: unknown,
	problems: FieldProblems,
): Pick<SliceEndpoint, "forNodes" | "forZones"> {
	if (value === undefined || value === null) return { forNodes: [], forZones: [] };
	const hints = problems.object(field, value) ?? {};
	const names = (list: "forNodes" | "forZones"): readonly string[] =>
		problems.list(`${field}.${list}`, hints[list], MAX_HINTS).flatMap((item, index) => {
			const hint = problems.object(`${field}.${list}[${index}]`, item) ?? {};
			const name = problems.string(`${field}.${list}[${index}].name`, hint["name"], "");
			return name === "" ? [] : [name];
		});
	return { forNodes: names("forNodes"), forZones: names("forZones") };
}

/** The first of the addresses: the others mean nothing to any proxy. */
function readAddress(
	field: string,
	value: unknown,
	family: IpFamily,
	problems: FieldProblems,
): IpAddress | undefined {
	const [first] = problems.list(field, value, 100);
	if (first === undefined) {
		problems.add(field, "at least one address", value);
		return undefined;
	}
	return readIp(`${field}[0]`, first, family, problems);
}

/** An address that an endpoint may have; a problem and undefined otherwise. */
export function readIp(
	field: string,
	value: unknown,
	family: IpFamily | undefined,
	problems: FieldProblems,
): IpAddress | undefined {
	const address = typeof value === "string" ? parseIpAddress(value) : undefined;
	if (address === undefined || (family !== undefined && ipFamilyOf(address) !== family)) {
		problems.add(field, family === undefined ? "an IP address" : `an ${family} address`, value);
		return undefined;
	}
	const reason = whyNoEndpoint(address);
	if (reason === undefined) return address;
	problems.add(field, `an address that is not ${reason}`, value);
	return undefined;
}

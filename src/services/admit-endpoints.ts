import { IP_FAMILIES, type IpAddress, type IpFamily, ipFamilyOf } from "./address.ts";
import type { Admission } from "./admission.ts";
import { readIp } from "./admit-endpoint-slice.ts";
import { labelOf, readMetadata } from "./admit-metadata.ts";
import { readPortName, readProtocol } from "./admit-service-ports.ts";
import { FieldProblems, isRawObject, type RawObject } from "./field-problems.ts";
import type { EndpointSlice, SliceEndpoint, SlicePort } from "./objects.ts";
import { isPort } from "./port.ts";

/**
 * Beyond what the API server's own controller writes (1,000 addresses over all subsets). Counted over
 * all subsets, as a YAML file can name one long list in each of them.
 */
const MAX_SUBSETS = 1_000;
const MAX_ADDRESSES = 10_000;
const MAX_SUBSET_PORTS = 1_000;

/**
 * Judges a core/v1 Endpoints object and turns it into the EndpointSlices that it stands for: one per
 * subset and IP family, named "cart-1-ipv4". Never throws.
 */
export function admitEndpoints(raw: unknown): Admission<readonly EndpointSlice[]> {
	const problems = new FieldProblems();
	const object = problems.object("", raw) ?? {};
	const { namespace, name } = readMetadata(object, problems);
	const subsets = problems.list("subsets", object["subsets"], MAX_SUBSETS);
	let addressCount = 0;
	const slices = subsets.flatMap((item, index) => {
		const field = `subsets[${index}]`;
		const subset = problems.object(field, item) ?? {};
		addressCount += lengthOf(subset["addresses"]) + lengthOf(subset["notReadyAddresses"]);
		if (addressCount > MAX_ADDRESSES) {
			problems.addText(field, `wanted at most ${MAX_ADDRESSES} addresses in all, got more`);
			return [];
		}
		const ports = readPorts(field, subset, problems);
		const endpoints = [
			...readAddresses(`${field}.addresses`, subset["addresses"], true, problems),
			...readAddresses(`${field}.notReadyAddresses`, subset["notReadyAddresses"], false, problems),
		];
		return IP_FAMILIES.map((family) =>
			toSlice({ namespace, name, index, family, ports, endpoints }),
		).filter((slice) => slice.endpoints.length > 0);
	});
	return problems.admit(slices);
}

function lengthOf(value: unknown): number {
	return Array.isArray(value) ? value.length : 0;
}

function toSlice(parts: {
	readonly namespace: string;
	readonly name: string;
	readonly index: number;
	readonly family: IpFamily;
	readonly ports: readonly SlicePort[];
	readonly endpoints: readonly SliceEndpoint[];
}): EndpointSlice {
	const { namespace, name, index, family, ports, endpoints } = parts;
	return {
		namespace,
		name: `${name}-${index + 1}-${family}`,
		serviceName: name,
		family,
		ports,
		endpoints: endpoints.filter(({ address }) => ipFamilyOf(address) === family),
	};
}

function readPorts(
	field: string,
	subset: RawObject,
	problems: FieldProblems,
): readonly SlicePort[] {
	const items = problems.list(`${field}.ports`, subset["ports"], MAX_SUBSET_PORTS);
	const keys = new Set<string>();
	return items.flatMap((item, index): SlicePort[] => {
		const at = `${field}.ports[${index}]`;
		const fields = problems.object(at, item);
		if (fields === undefined) return [];
		const name = readPortName(`${at}.name`, fields["name"], problems);
		const protocol = readProtocol(`${at}.protocol`, fields["protocol"], problems);
		const port = fields["port"];
		if (!isPort(port)) {
			problems.add(`${at}.port`, "an integer in 1..65535", port);
			return [];
		}
		// The API lets it pass. It would multiply addresses by ports, and no controller writes it:
		// Pods whose ports differ are in different subsets.
		const key = `${name}/${protocol}`;
		if (keys.has(key)) problems.add(`${at}.name`, "a name that no other port has", name);
		keys.add(key);
		return [{ name, protocol, port }];
	});
}

function readAddresses(
	field: string,
	value: unknown,
	isReady: boolean,
	problems: FieldProblems,
): readonly SliceEndpoint[] {
	return problems.list(field, value, MAX_ADDRESSES).flatMap((item, index): SliceEndpoint[] => {
		const fields = problems.object(`${field}[${index}]`, item);
		if (fields === undefined) return [];
		const address: IpAddress | undefined = readIp(
			`${field}[${index}].ip`,
			fields["ip"],
			undefined,
			problems,
		);
		if (address === undefined) return [];
		const target = isRawObject(fields["targetRef"]) ? fields["targetRef"] : {};
		return [
			{
				address,
				ready: isReady,
				serving: isReady,
				terminating: false,
				nodeName: problems.string(`${field}[${index}].nodeName`, fields["nodeName"], undefined),
				zone: undefined,
				podName: target["kind"] === "Pod" ? labelOf(target, "name") : undefined,
				forNodes: [],
				forZones: [],
			},
		];
	});
}

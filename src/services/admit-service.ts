import { type IpAddress, ipFamilyOf, parseIpAddress } from "./address.ts";
import type { Admission } from "./admission.ts";
import { readLabel, readMetadata } from "./admit-metadata.ts";
import { FieldProblems, type RawObject, showValue } from "./field-problems.ts";
import { isDnsLabel } from "./names.ts";
import type { Service, ServicePortSpec, ServiceProtocol, SessionAffinity } from "./objects.ts";
import { isPort } from "./port.ts";
import { whyNoClusterIp } from "./unusable-address.ts";

/** A Service with this label is left to the proxy that it names. */
const PROXY_NAME_LABEL = "service.kubernetes.io/service-proxy-name";

const TYPES = ["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"] as const;

/** The API has no limit of its own; an object that etcd holds has fewer. */
const MAX_PORTS = 5_000;

/** Affinity is kept this long when the Service does not say (the API's default). */
const DEFAULT_AFFINITY_SECONDS = 10_800;
const MAX_AFFINITY_SECONDS = 86_400;

/** Judges a core/v1 Service as the API server would, for the fields that we use. Never throws. */
export function admitService(raw: unknown): Admission<Service> {
	const problems = new FieldProblems();
	const object = problems.object("", raw) ?? {};
	const { namespace, name, labels } = readMetadata(object, problems, isDnsLabel);
	const spec = problems.object("spec", object["spec"]) ?? {};
	const type = problems.oneOf("spec.type", spec["type"], TYPES, "ClusterIP");
	const kind = kindOf(type, spec);
	return problems.admit({
		namespace,
		name,
		kind,
		proxyName: readLabel(labels, PROXY_NAME_LABEL, problems),
		clusterIps: kind === "ExternalName" ? [] : readClusterIps(spec, problems),
		ports: readPorts(spec, kind, problems),
		sessionAffinity: readAffinity(spec, problems),
	});
}

function kindOf(type: (typeof TYPES)[number], spec: RawObject): Service["kind"] {
	if (type === "ExternalName") return "ExternalName";
	return isHeadless(spec) ? "headless" : "addressed";
}

function isHeadless({ clusterIP, clusterIPs }: RawObject): boolean {
	if ((clusterIP ?? "") !== "") return clusterIP === "None";
	return Array.isArray(clusterIPs) && clusterIPs[0] === "None";
}

function hasNoAddress({ clusterIP, clusterIPs }: RawObject): boolean {
	return (clusterIP ?? "") === "" && isNoItem(clusterIPs);
}

function readClusterIps(spec: RawObject, problems: FieldProblems): readonly IpAddress[] {
	const first = problems.string("spec.clusterIP", spec["clusterIP"], "");
	const listed = problems.list("spec.clusterIPs", spec["clusterIPs"], 2);
	if (isHeadless(spec)) {
		if (listed.length > 0 && (listed.length > 1 || listed[0] !== "None")) {
			problems.add("spec.clusterIPs", 'nothing but "None", as spec.clusterIP is', listed[0]);
		}
		return [];
	}
	if (hasNoAddress(spec)) {
		problems.add(
			"spec.clusterIP",
			"an IP address (outside a cluster nothing allocates one: write it into the manifest)",
			spec["clusterIP"],
		);
		return [];
	}
	if (first !== "" && listed.length > 0 && listed[0] !== first) {
		const wanted = `the same address as spec.clusterIP, ${showValue(first)}`;
		problems.add("spec.clusterIPs[0]", wanted, listed[0]);
	}
	// Of what is no text or no list, that has been said.
	const texts = listed.length > 0 ? listed : [first].filter((text) => text !== "");
	const addresses = texts.flatMap((text, index) => {
		const field = listed.length > 0 ? `spec.clusterIPs[${index}]` : "spec.clusterIP";
		return readClusterIp(field, text, problems);
	});
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

function readPorts(
	spec: RawObject,
	kind: Service["kind"],
	problems: FieldProblems,
): readonly ServicePortSpec[] {
	const items = problems.list("spec.ports", spec["ports"], MAX_PORTS);
	if (isNoItem(spec["ports"]) && kind === "addressed") {
		problems.add("spec.ports", "at least one port", spec["ports"]);
	}
	const ports = items.flatMap((item, index) => readPort(`spec.ports[${index}]`, item, problems));
	checkUnique(ports, problems);
	return ports;
}

function readPort(field: string, item: unknown, problems: FieldProblems): ServicePortSpec[] {
	const object = problems.object(field, item);
	if (object === undefined) return [];
	const name = readPortName(`${field}.name`, object["name"], problems);
	const protocol = readProtocol(`${field}.protocol`, object["protocol"], problems);
	const port = object["port"];
	if (!isPort(port)) {
		problems.add(`${field}.port`, "an integer in 1..65535", port);
		return [];
	}
	return [{ name, protocol, port }];
}

/** @returns "" for a port without a name. */
export function readPortName(field: string, value: unknown, problems: FieldProblems): string {
	const name = problems.string(field, value, "");
	if (name === "" || isDnsLabel(name)) return name;
	problems.add(field, "a DNS label in lower case", value);
	return "";
}

export function readProtocol(
	field: string,
	value: unknown,
	problems: FieldProblems,
): ServiceProtocol {
	const protocol = problems.oneOf(field, value, ["TCP", "UDP", "SCTP"], "TCP");
	return protocol === "TCP" ? "tcp" : protocol === "UDP" ? "udp" : "sctp";
}

function checkUnique(ports: readonly ServicePortSpec[], problems: FieldProblems): void {
	const names = new Set<string>();
	const numbers = new Set<string>();
	for (const [index, { name, protocol, port }] of ports.entries()) {
		if (name === "" && ports.length > 1) {
			problems.addText(`spec.ports[${index}].name`, "wanted a name, as there are several ports");
		} else if (names.has(name)) {
			problems.add(`spec.ports[${index}].name`, "a name that no other port has", name);
		}
		const number = `${protocol} ${port}`;
		if (numbers.has(number)) {
			problems.add(`spec.ports[${index}]`, "a port that is not there already", number);
		}
		names.add(name);
		numbers.add(number);
	}
}

function readAffinity(spec: RawObject, problems: FieldProblems): SessionAffinity {
	const type = problems.oneOf(
		"spec.sessionAffinity",
		spec["sessionAffinity"],
		["None", "ClientIP"],
		"None",
	);
	if (type === "None") return { type };
	const field = "spec.sessionAffinityConfig";
	const config = problems.object(field, spec["sessionAffinityConfig"] ?? {}) ?? {};
	const clientIp = problems.object(`${field}.clientIP`, config["clientIP"] ?? {}) ?? {};
	const seconds = clientIp["timeoutSeconds"] ?? DEFAULT_AFFINITY_SECONDS;
	if (!isWithin(seconds, 1, MAX_AFFINITY_SECONDS)) {
		problems.add(
			`${field}.clientIP.timeoutSeconds`,
			`an integer in 1..${MAX_AFFINITY_SECONDS}`,
			seconds,
		);
		return { type, timeoutMs: DEFAULT_AFFINITY_SECONDS * 1_000 };
	}
	return { type, timeoutMs: seconds * 1_000 };
}

/** False of what should be a list and is none: that is another fault. */
function isNoItem(list: unknown): boolean {
	return list === undefined || list === null || (Array.isArray(list) && list.length === 0);
}

function isWithin(value: unknown, least: number, most: number): value is number {
	return typeof value === "number" && Number.isInteger(value) && value >= least && value <= most;
}

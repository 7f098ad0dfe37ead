import type { Admission } from "./admission.ts";
import { readLabel, readMetadata } from "./admit-metadata.ts";
import {
	isHeadless,
	readClusterIps,
	readExternalIps,
	readLoadBalancerIps,
	readSourceRanges,
} from "./admit-service-addresses.ts";
import { readServicePorts } from "./admit-service-ports.ts";
import { FieldProblems, type RawObject } from "./field-problems.ts";
import { isDnsLabel } from "./names.ts";
import type { Service, SessionAffinity } from "./objects.ts";
import { isPort, type Port } from "./port.ts";

/** A Service with this label is left to the proxy that it names. */
const PROXY_NAME_LABEL = "service.kubernetes.io/service-proxy-name";

const TYPES = ["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"] as const;

/** Affinity is kept this long when the Service does not say (the API's default). */
const DEFAULT_AFFINITY_SECONDS = 10_800;
const MAX_AFFINITY_SECONDS = 86_400;

/** Judges a core/v1 Service as the API server would, for the fields that we use. Never throws. */
export function admitService(raw: unknown): Admission<Service> {
	const problems = new FieldProblems();
	const object = problems.object("", raw) ?? {};
	const { namespace, name, labels, createdAtMs } = readMetadata(object, problems, isDnsLabel);
	const spec = problems.object("spec", object["spec"]) ?? {};
	const type = problems.oneOf("spec.type", spec["type"], TYPES, "ClusterIP");
	const kind = kindOf(type, spec);
	const ports = readServicePorts(spec, kind, problems);
	const externalIps = readExternalIps(spec, problems);
	// As kube-proxy has it: a policy left over from another type of Service means nothing.
	const isExternal = type === "NodePort" || type === "LoadBalancer" || externalIps.length > 0;
	const policy = readPolicy("externalTrafficPolicy", spec, problems);
	const externalTrafficPolicy = isExternal ? policy : "Cluster";
	const healthPort = readHealthCheckPort(spec, problems);
	return problems.admit({
		namespace,
		name,
		createdAtMs,
		kind,
		proxyName: readLabel(labels, PROXY_NAME_LABEL, problems),
		clusterIps: kind === "ExternalName" ? [] : readClusterIps(spec, problems),
		externalIps,
		loadBalancerIps: readLoadBalancerIps(object["status"], problems),
		sourceRanges: readSourceRanges(spec, problems),
		internalTrafficPolicy: readPolicy("internalTrafficPolicy", spec, problems),
		externalTrafficPolicy,
		healthCheckNodePort:
			type === "LoadBalancer" && externalTrafficPolicy === "Local" ? healthPort : undefined,
		ports,
		sessionAffinity: readAffinity(spec, problems),
	});
}

function readPolicy(
	field: "internalTrafficPolicy" | "externalTrafficPolicy",
	spec: RawObject,
	problems: FieldProblems,
): Service["internalTrafficPolicy"] {
	return problems.oneOf(`spec.${field}`, spec[field], ["Cluster", "Local"], "Cluster");
}

function readHealthCheckPort(spec: RawObject, problems: FieldProblems): Port | undefined {
	const port = spec["healthCheckNodePort"] ?? 0;
	if (port === 0) return undefined;
	if (isPort(port)) return port;
	problems.add("spec.healthCheckNodePort", "an integer in 1..65535", port);
	return undefined;
}

function kindOf(type: (typeof TYPES)[number], spec: RawObject): Service["kind"] {
	if (type === "ExternalName") return "ExternalName";
	return isHeadless(spec) ? "headless" : "addressed";
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

function isWithin(value: unknown, least: number, most: number): value is number {
	return typeof value === "number" && Number.isInteger(value) && value >= least && value <= most;
}

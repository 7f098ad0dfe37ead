import type { Agent } from "./agent.ts";
import { rawService, rawSlice } from "./raw-objects.ts";
import { clusterIp, createServiceLab, type ServiceLab } from "./service-lab.ts";

export const FAMILIES = ["ipv4", "ipv6"] as const;
export type Family = (typeof FAMILIES)[number];

export const NODE_PORT = 30_080;

/** Addresses that no interface has: the node is the client's way to everywhere. */
export const EXTERNAL: Record<Family, string> = { ipv4: "203.0.113.7", ipv6: "fd20::7" };
export const BALANCER: Record<Family, string> = { ipv4: "198.51.100.7", ipv6: "fd30::7" };
/** The node's own on its links to the client and to the outside. */
export const NODE: Record<Family, readonly [string, string]> = {
	ipv4: ["10.1.0.1", "10.3.0.1"],
	ipv6: ["fd10:1::1", "fd10:3::1"],
};

/** What {@link ask} gets where nobody serves, and where a rule drops. */
export const REFUSED = ["ECONNREFUSED", "ECONNREFUSED"] as const;
export const DROPPED = ["TIMEOUT", "TIMEOUT"] as const;

const PORTS = [
	{ name: "web", protocol: "TCP", port: 80, nodePort: NODE_PORT },
	{ name: "dns", protocol: "UDP", port: 80, nodePort: NODE_PORT },
];

export interface KindServiceFields {
	readonly name: string;
	readonly number: number;
	readonly spec?: Record<string, unknown>;
	readonly status?: unknown;
	readonly ports?: readonly unknown[];
	/** The number of the endpoint, and the node that it is on. */
	readonly endpoints?: readonly (readonly [index: number, nodeName?: string])[];
}

/** A Service over both protocols and families, with an EndpointSlice for each family. */
export function kindService({
	name,
	number,
	spec = {},
	status,
	...rest
}: KindServiceFields): unknown[] {
	const { ports = PORTS, endpoints = [[1], [2], [3]] } = rest;
	const service = rawService({
		name,
		clusterIps: FAMILIES.map((family) => clusterIp(number, family)),
		ports,
		spec: { type: "LoadBalancer", ...spec },
	});
	const slices = FAMILIES.map((family) =>
		rawSlice({
			serviceName: name,
			name: `${name}-${family}`,
			addressType: family === "ipv4" ? "IPv4" : "IPv6",
			ports: [
				{ name: "web", protocol: "TCP", port: 8080 },
				{ name: "dns", protocol: "UDP", port: 8080 },
			],
			endpoints: endpoints.map(([index, nodeName]) => ({
				addresses: [family === "ipv4" ? `10.2.${index}.2` : `fd10:2:${index}::2`],
				nodeName,
			})),
		}),
	);
	return [{ ...service, ...(status === undefined ? {} : { status }) }, ...slices];
}

/** A Service with every kind of address: ClusterIP, external IP, load balancer's, and a node port. */
export function everyKindService(fields: KindServiceFields): unknown[] {
	return kindService({
		...fields,
		spec: { externalIPs: Object.values(EXTERNAL), ...fields.spec },
		status: ingressOf({ ip: BALANCER.ipv4 }, { ip: BALANCER.ipv6 }),
	});
}

/** Where {@link everyKindService} is reached from beside the node, by kind. */
export function everyKind(
	number: number,
	family: Family,
): readonly (readonly [kind: string, address: string, port: number])[] {
	return [
		["ClusterIP", clusterIp(number, family), 80],
		["external IP", EXTERNAL[family], 80],
		["load balancer", BALANCER[family], 80],
		["node port", NODE[family][0], NODE_PORT],
	];
}

/** `status` of a Service. */
export const ingressOf = (...addresses: unknown[]) => ({ loadBalancer: { ingress: addresses } });

/** A lab whose endpoints answer TCP and UDP on port 8080 with their names. */
export async function createKindLab(): Promise<ServiceLab> {
	const services = await createServiceLab();
	await services.serveTcp({ mode: "greet", port: 8080 });
	await services.serveUdp({ mode: "name", port: 8080, address: "::" });
	return services;
}

/** Longer than the kernel waits before it sends a lost SYN again, which is a second. */
const TIMEOUT_MS = 2_500;

/** What a client gets there over TCP: the answer or the error. */
export async function askTcp(from: Agent, address: string, port = 80): Promise<string | undefined> {
	const [result] = await from.tcp({ address, port, timeoutMs: TIMEOUT_MS });
	return result?.error ?? result?.answer;
}

/** As {@link askTcp}; an answer from elsewhere than was asked is none. */
export async function askUdp(from: Agent, address: string, port = 80): Promise<string | undefined> {
	const [result] = await from.udp({ address, port, timeoutMs: TIMEOUT_MS, connected: true });
	return result?.error ?? result?.answer;
}

/** What a client gets there over TCP and over UDP. */
export async function ask(
	from: Agent,
	address: string,
	port = 80,
): Promise<readonly (string | undefined)[]> {
	return await Promise.all([askTcp(from, address, port), askUdp(from, address, port)]);
}

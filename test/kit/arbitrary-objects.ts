import fc from "fast-check";
import { rawService, rawSlice } from "./raw-objects.ts";

/**
 * Arbitrary Kubernetes objects for property tests: good ones out of small pools, so that they meet
 * (the same names, addresses and ports again and again), and the same with one field made bad.
 */

/** A raw object with one field replaced or taken away; a counter-example shows which. */
export interface Mutated {
	/** "spec.ports[0].port"; "" for the object itself. */
	readonly field: string;
	/** What the field holds now; undefined: it is gone. */
	readonly value: unknown;
	readonly raw: unknown;
}

const namespace = fc.constantFrom("shop", "market");
const name = fc.constantFrom("cart", "web", "dns", "cart-v2");
const portName = fc.constantFrom("http", "dns", "x");
const protocol = fc.constantFrom("TCP", "UDP", "SCTP", undefined);
const portNumber = fc.oneof(
	fc.constantFrom(1, 53, 80, 65_535),
	fc.integer({ min: 1, max: 65_535 }),
);

const ipv4 = fc.integer({ min: 1, max: 6 }).map((n) => `10.96.0.${n}`);
const ipv6 = fc.integer({ min: 1, max: 6 }).map((n) => `fd10::${n}`);
const clusterIps = fc.oneof(
	ipv4.map((address) => [address]),
	ipv6.map((address) => [address]),
	fc.tuple(ipv4, ipv6).map(([four, six]) => [four, six]),
	fc.tuple(ipv6, ipv4).map(([six, four]) => [six, four]),
);

/** Names once, numbers and node ports once per protocol. */
function portsOf<
	T extends {
		readonly name: string;
		readonly protocol: string | undefined;
		readonly port: number | undefined;
		readonly nodePort?: number | undefined;
	},
>(port: fc.Arbitrary<T>, minLength: number) {
	return fc.uniqueArray(port, {
		minLength,
		maxLength: 3,
		comparator: (a, b) => {
			if (a.name === b.name) return true;
			if ((a.protocol ?? "TCP") !== (b.protocol ?? "TCP")) return false;
			return a.port === b.port || (a.nodePort !== undefined && a.nodePort === b.nodePort);
		},
	});
}

const nodePort = fc.constantFrom(undefined, undefined, 30_001, 30_002);
const servicePorts = portsOf(
	fc.record({ name: portName, protocol, port: portNumber, nodePort }),
	1,
);

const affinity = fc.oneof(
	fc.constant({}),
	fc.constant({ sessionAffinity: "ClientIP" }),
	fc.integer({ min: 1, max: 86_400 }).map((timeoutSeconds) => ({
		sessionAffinity: "ClientIP",
		sessionAffinityConfig: { clientIP: { timeoutSeconds } },
	})),
);

const kind = fc.constantFrom(
	{},
	{},
	{},
	{ type: "NodePort" },
	{ type: "LoadBalancer" },
	{ clusterIP: "None", clusterIPs: ["None"] },
	{
		type: "ExternalName",
		externalName: "db.example.com",
		clusterIP: undefined,
		clusterIPs: undefined,
	},
);

/** By name, so that no two Services are of the same age: which of two is served must not hang on the order. */
function createdAt(service: { readonly namespace: string; readonly name: string }): string {
	const second = Buffer.from(`${service.namespace}/${service.name}`).reduce(
		(sum, byte) => (sum * 31 + byte) % 86_400,
		0,
	);
	return new Date(Date.UTC(2026, 0, 1) + second * 1_000).toISOString();
}

const external = fc.constantFrom(
	{},
	{},
	{ externalIPs: ["203.0.113.1"] },
	{ externalIPs: ["10.96.0.1", "fd10::1", "127.0.0.1", "203.0.113.1"] },
);

const policies = fc.record({
	internalTrafficPolicy: fc.constantFrom("Cluster", "Cluster", "Local", undefined),
	externalTrafficPolicy: fc.constantFrom("Cluster", "Cluster", "Local", undefined),
});

/** A Service that the API would take. */
export const arbitraryService = fc
	.record({
		namespace,
		name,
		clusterIps,
		ports: servicePorts,
		affinity,
		kind,
		external,
		policies,
		other: fc.boolean(),
		balancerIp: fc.constantFrom(undefined, undefined, "203.0.113.1", "203.0.113.2", "10.1.0.1"),
	})
	.map(({ affinity: affinitySpec, kind: kindSpec, other, balancerIp, ...fields }) => {
		const { external: externalSpec, policies: policySpec, ...rest } = fields;
		const raw = rawService({
			...rest,
			createdAt: createdAt(rest),
			...(other ? { labels: { "service.kubernetes.io/service-proxy-name": "other" } } : {}),
			spec: { ...affinitySpec, ...externalSpec, ...policySpec, ...kindSpec },
		});
		return balancerIp === undefined
			? raw
			: { ...raw, status: { loadBalancer: { ingress: [{ ip: balancerIp }] } } };
	});

const maybe = fc.constantFrom(true, false, null, undefined);
const nodeName = fc.constantFrom("node1", "node2", undefined);

const endpointOf = (address: fc.Arbitrary<string>) =>
	fc
		.record({ address, ready: maybe, serving: maybe, terminating: maybe, nodeName })
		.map(({ address: first, nodeName: node, ...conditions }) => ({
			addresses: [first],
			conditions,
			nodeName: node,
			targetRef: { kind: "Pod", name: `pod-${node}` },
		}));

/** Some are also addresses of Services: a loop. */
const podIpv4 = fc.oneof(
	ipv4,
	fc.integer({ min: 1, max: 8 }).map((n) => `10.244.1.${n}`),
);
const podIpv6 = fc.oneof(
	ipv6,
	fc.integer({ min: 1, max: 8 }).map((n) => `fd20::${n}`),
);

const slicePorts = fc.oneof(
	portsOf(fc.record({ name: portName, protocol, port: fc.constantFrom(8080, 53, undefined) }), 0),
	fc.constant(null),
);

const sliceOf = (addressType: string, address: fc.Arbitrary<string>) =>
	fc
		.record({
			namespace,
			serviceName: name,
			suffix: fc.constantFrom("a", "b", "c"),
			ports: slicePorts,
			endpoints: fc.array(endpointOf(address), { maxLength: 5 }),
		})
		.map(({ suffix, ...fields }) =>
			rawSlice({
				...fields,
				addressType,
				name: `${fields.serviceName}-${suffix}-${addressType.toLowerCase()}`,
			}),
		);

/** An EndpointSlice that the API would take. */
export const arbitrarySlice = fc.oneof(sliceOf("IPv4", podIpv4), sliceOf("IPv6", podIpv6));

/** An Endpoints object that the API would take. */
export const arbitraryEndpoints = fc
	.record({
		namespace,
		name,
		addresses: fc.array(fc.oneof(podIpv4, podIpv6), { maxLength: 4 }),
		port: portNumber,
	})
	.map(({ addresses, port, ...metadata }) => ({
		apiVersion: "v1",
		kind: "Endpoints",
		metadata,
		subsets: [{ addresses: addresses.map((ip) => ({ ip })), ports: [{ name: "http", port }] }],
	}));

/** A Node that the API would take. */
export const arbitraryNode = fc
	.record({ name: fc.constantFrom("node1", "node2"), address: fc.oneof(ipv4, ipv6) })
	.map(({ name: nodeMetadataName, address }) => ({
		apiVersion: "v1",
		kind: "Node",
		metadata: { name: nodeMetadataName, labels: { "topology.kubernetes.io/zone": "a" } },
		status: { addresses: [{ type: "InternalIP", address }] },
	}));

/** Anything that JSON can say, and the values that most often go wrong. */
export const arbitraryJson: fc.Arbitrary<unknown> = fc.oneof(
	fc.constantFrom<unknown>(
		null,
		"",
		0,
		1,
		-1,
		1.5,
		65_536,
		70_000,
		true,
		[],
		{},
		[null],
		[[]],
		"None",
	),
	fc.constantFrom<unknown>("10.96.0.1", "999.1.1.1", "::1", "fe80::1%eth0", "127.0.0.1", "0.0.0.0"),
	fc.jsonValue({ maxDepth: 3 }),
);

type Path = readonly (string | number)[];

/** A good object with one field, at any depth, replaced by anything or taken away. */
export function mutated(good: fc.Arbitrary<unknown>): fc.Arbitrary<Mutated> {
	const value = fc.oneof(arbitraryJson, fc.constant(undefined));
	return fc.tuple(good, fc.nat(), value).map(([raw, choice, replacement]) => {
		const paths = pathsOf(raw, []);
		const path = paths[choice % paths.length] ?? [];
		return { field: showPath(path), value: replacement, raw: replaced(raw, path, replacement) };
	});
}

function pathsOf(value: unknown, path: Path): readonly Path[] {
	if (typeof value !== "object" || value === null) return [path];
	const inside = Object.entries(value).flatMap(([key, item]) =>
		pathsOf(item, [...path, Array.isArray(value) ? Number(key) : key]),
	);
	return [path, ...inside];
}

function replaced(value: unknown, path: Path, replacement: unknown): unknown {
	const [step, ...rest] = path;
	if (step === undefined) return replacement;
	if (Array.isArray(value)) {
		const items: readonly unknown[] = value;
		return items
			.map((item, index) => (index === step ? replaced(item, rest, replacement) : item))
			.filter((item) => item !== undefined);
	}
	const fields = typeof value === "object" && value !== null ? Object.entries(value) : [];
	return Object.fromEntries(
		fields
			.map(([key, item]) => [key, key === step ? replaced(item, rest, replacement) : item])
			.filter(([, item]) => item !== undefined),
	);
}

/** As the judges name fields. */
function showPath(path: Path): string {
	return path
		.map((step) => {
			if (typeof step === "number") return `[${step}]`;
			return /^\w+$/.test(step) ? `.${step}` : `[${JSON.stringify(step)}]`;
		})
		.join("")
		.slice(1);
}

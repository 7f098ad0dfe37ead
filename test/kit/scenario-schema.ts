import { z } from "zod";
import { parseIpAddress } from "../../src/services/address.ts";

/*
 * The fields of a file under test/scenarios/; test/README.md explains them. Every object is strict: a
 * field with a typo would be an expectation that nobody checks.
 */

const PORT_MAX = 65_535;

const port = z.int().min(1).max(PORT_MAX);
const objectName = z.string().regex(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/, "wanted a DNS label");
const protocol = z.enum(["TCP", "UDP", "SCTP"]);
const policy = z.enum(["Cluster", "Local"]);
const endpointName = z.enum(["ep1", "ep2", "ep3"]);

/** One or several of something; always a list behind here. */
function listOf<T extends z.ZodType>(item: T) {
	return z.preprocess(
		(value) => (value === undefined || Array.isArray(value) ? value : [value]),
		z.array(item).min(1),
	);
}

const service = z.strictObject({
	kind: z.literal("Service"),
	/** Of the object; default: what it is called in the file. */
	name: objectName.optional(),
	createdAt: z.iso.datetime().optional(),
	labels: z.record(z.string(), z.string()).optional(),
	spec: z.strictObject({
		type: z.enum(["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"]).optional(),
		externalName: z.string().optional(),
		clusterIPs: z.array(z.string()).optional(),
		externalIPs: z.array(z.string()).optional(),
		externalTrafficPolicy: policy.optional(),
		internalTrafficPolicy: policy.optional(),
		loadBalancerSourceRanges: z.array(z.string()).optional(),
		healthCheckNodePort: port.optional(),
		sessionAffinity: z.enum(["None", "ClientIP"]).optional(),
		ports: z.array(
			z.strictObject({
				name: objectName.optional(),
				protocol: protocol.optional(),
				port,
				nodePort: port.optional(),
			}),
		),
	}),
	/** Of `status.loadBalancer.ingress`. */
	ingress: z
		.array(z.strictObject({ ip: z.string(), ipMode: z.enum(["VIP", "Proxy"]).optional() }))
		.optional(),
});

const condition = z.boolean().nullable().optional();

const sliceEndpoint = z.preprocess(
	(value) => (typeof value === "string" ? { at: value } : value),
	z.strictObject({
		at: z
			.string()
			.refine(
				(text) => endpointName.safeParse(text).success || parseIpAddress(text) !== undefined,
				"wanted ep1, ep2, ep3 or an IP address",
			),
		node: z.string().optional(),
		ready: condition,
		serving: condition,
		terminating: condition,
		forZones: z.array(z.string()).optional(),
		forNodes: z.array(z.string()).optional(),
	}),
);

const slice = z.strictObject({
	kind: z.literal("EndpointSlice"),
	name: objectName.optional(),
	/** The Service that it belongs to. */
	of: objectName,
	/** A slice for each. */
	families: listOf(z.enum(["IPv4", "IPv6"])).default(["IPv4"]),
	ports: z.array(
		z.strictObject({
			name: objectName.optional(),
			protocol: protocol.optional(),
			port: port.default(8080),
		}),
	),
	endpoints: z.array(sliceEndpoint),
});

const node = z.strictObject({
	kind: z.literal("Node"),
	zone: z.string().optional(),
	podCIDRs: z.array(z.string()).optional(),
});

const serviceCidr = z.strictObject({
	kind: z.literal("ServiceCIDR"),
	cidrs: z.array(z.string()),
});

const expectation = z.union(
	[
		z.enum(["refused", "dropped", "not captured"]),
		z.array(endpointName).min(1),
		z.strictObject({ sticky: z.array(endpointName).min(1) }),
	],
	{
		error:
			'wanted a list of ep1, ep2 and ep3, {sticky: [...]}, "refused", "dropped" or "not captured"',
	},
);

const reach = z.strictObject({
	from: listOf(z.enum(["client", "outside", "node", "pod"])),
	to: listOf(
		z
			.string()
			.regex(
				/^(\[[0-9a-f:]+\]|[0-9.]+):\d+\/(tcp|udp|tcp\+udp)$/,
				"wanted ADDRESS:PORT/tcp, /udp or /tcp+udp",
			),
	),
	expect: expectation,
});

const plan = z.strictObject({
	/** All of them, by key without the namespace: its endpoints, or what clients get without any. */
	servicePorts: z
		.record(
			z.string(),
			z.union([z.array(z.string()).min(1), z.enum(["reject", "drop"])], {
				error: 'wanted a list of endpoints, "reject" or "drop"',
			}),
		)
		.optional(),
	/** All of them: "NAME: REASON: DETAIL", without the namespace. */
	unserved: z.array(z.string()).optional(),
	/** By port: how many endpoints are on this node. */
	healthChecks: z.record(z.string(), z.int()).optional(),
	/** Parts of rules, of either family, that are there, and that are not. */
	rules: z
		.strictObject({
			has: z.array(z.string()).optional(),
			hasNot: z.array(z.string()).optional(),
		})
		.optional(),
});

const step = z.strictObject({
	/** What happens, for the failure's text. */
	does: z.string().min(1),
	apply: listOf(z.string()).optional(),
	delete: listOf(z.string()).optional(),
	reach: z.array(reach).optional(),
	plan: plan.optional(),
	/** Every ServicePort of the step before is there with the proxy port that it had. */
	proxyPorts: z.literal("kept").optional(),
});

export const scenarioFile = z.strictObject({
	/** The fact. */
	shows: z.string().min(1),
	/** False: without real packets. */
	kernel: z.boolean().default(true),
	/** Flags of the daemon beside the common ones; only without real packets. */
	flags: z.record(z.string(), z.array(z.string())).default({}),
	objects: z.record(
		objectName,
		z.discriminatedUnion("kind", [service, slice, serviceCidr, node], {
			error: "wanted kind Service, EndpointSlice, ServiceCIDR or Node",
		}),
	),
	steps: z.array(step).min(1),
});

export type ScenarioFile = z.infer<typeof scenarioFile>;
export type ScenarioStep = z.infer<typeof step>;
export type ScenarioObject = ScenarioFile["objects"][string];
export type ScenarioReach = z.infer<typeof reach>;
export type Expectation = z.infer<typeof expectation>;
export type Place = ScenarioReach["from"][number];

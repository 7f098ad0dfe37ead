import { rawService, rawSlice } from "../../test/kit/raw-objects.ts";

/** A Service of the soak, and what its traffic is. */
export interface SoakService {
	readonly name: string;
	/** The last part of 10.96.0.0/16. */
	readonly number: number;
	readonly protocol: "TCP" | "UDP";
	/** Where its endpoints listen. */
	readonly targetPort: number;
	readonly isSticky?: true;
}

export const ECHO_PORT = 8080;
export const CUTTING_PORT = 8081;
export const UDP_ECHO_PORT = 5353;

/** Each kind of traffic has a Service of its own, so that what does not add up can be told apart. */
export const SERVICES = {
	/** Connections that stay, with many requests each. */
	requests: {
		name: "requests",
		number: 10,
		protocol: "TCP",
		targetPort: ECHO_PORT,
		isSticky: true,
	},
	/** A connection for each request. */
	connections: { name: "connections", number: 11, protocol: "TCP", targetPort: ECHO_PORT },
	/** Megabytes, both ways at once. */
	bulk: { name: "bulk", number: 12, protocol: "TCP", targetPort: ECHO_PORT },
	/** Connections that the client cuts somewhere. */
	cuts: { name: "cuts", number: 13, protocol: "TCP", targetPort: ECHO_PORT },
	/** Connections that the endpoint cuts at the first byte. */
	resets: { name: "resets", number: 14, protocol: "TCP", targetPort: CUTTING_PORT },
	datagrams: { name: "datagrams", number: 15, protocol: "UDP", targetPort: UDP_ECHO_PORT },
} as const satisfies Record<string, SoakService>;

export type TrafficKind = keyof typeof SERVICES;

// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- that is what they are
export const TRAFFIC_KINDS = Object.keys(SERVICES) as readonly TrafficKind[];

export const PORT = 80;

export function addressOf({ number }: SoakService): string {
	return `10.96.0.${number}`;
}

/** As the daemon calls it. */
export function fullName({ name }: SoakService): string {
	return `soak/${name}:p`;
}

/** Services that come and go, and that nobody asks. */
const PASSING = 5;

/**
 * A state of the manifests: every Service has some of the three endpoints, and some more Services are
 * there or are not.
 *
 * @param random uniform in [0, 1).
 */
export function someObjects(random: () => number): unknown[] {
	const passing = Array.from(
		{ length: PASSING },
		(_, index): SoakService => ({
			name: `passing-${index}`,
			number: 100 + index,
			protocol: "TCP",
			targetPort: ECHO_PORT,
		}),
	);
	return [...Object.values(SERVICES), ...passing.filter(() => random() < 0.5)].flatMap((service) =>
		objectsOf(service, someEndpoints(random)),
	);
}

/** Always the same: with which a soak begins and ends. */
export function allObjects(): unknown[] {
	return Object.values(SERVICES).flatMap((service) => objectsOf(service, [1, 2, 3]));
}

/** One at least. */
function someEndpoints(random: () => number): readonly number[] {
	const sure = 1 + Math.floor(random() * 3);
	return [1, 2, 3].filter((number) => number === sure || random() < 0.5);
}

function objectsOf(service: SoakService, endpoints: readonly number[]): unknown[] {
	const { name, protocol, targetPort, isSticky } = service;
	const namespace = "soak";
	return [
		rawService({
			namespace,
			name,
			clusterIp: addressOf(service),
			ports: [{ name: "p", protocol, port: PORT }],
			...(isSticky === true ? { spec: { sessionAffinity: "ClientIP" } } : {}),
		}),
		rawSlice({
			namespace,
			serviceName: name,
			ports: [{ name: "p", protocol, port: targetPort }],
			endpoints: endpoints.map((number) => `10.2.${number}.2`),
		}),
	];
}

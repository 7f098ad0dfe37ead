import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parse } from "yaml";
import { type Family, NODE } from "./address-kinds.ts";

/** Objects as a real control plane wrote them, in the few fields that tests look at. */

/** Where the dumps are. */
export const DUMPS_FOLDER = fileURLToPath(new URL("../fixtures/manifests/", import.meta.url));
export const DUMPS = ["kube-system.yaml", "market.yaml", "shop.yaml"];

interface DumpedPort {
	readonly name?: string;
	readonly protocol: "TCP" | "UDP";
	readonly port: number;
	readonly nodePort?: number;
}
export interface DumpedService {
	readonly kind: "Service";
	readonly metadata: {
		readonly namespace: string;
		readonly name: string;
		readonly labels?: Readonly<Record<string, string>>;
	};
	readonly spec: {
		readonly clusterIPs?: readonly string[];
		readonly externalIPs?: readonly string[];
		readonly externalTrafficPolicy?: string;
		readonly ports?: readonly DumpedPort[];
	};
}
export interface DumpedSlice {
	readonly kind: "EndpointSlice";
	readonly metadata: DumpedService["metadata"];
	readonly addressType: "IPv4" | "IPv6";
	readonly ports?: readonly DumpedPort[];
	readonly endpoints?: readonly {
		readonly addresses: readonly string[];
		readonly nodeName: string;
	}[];
}

/** Where a Service of the dumps is to be asked, and who may answer; nobody: it refuses. */
export interface ExpectedPort {
	readonly name: string;
	readonly family: Family;
	readonly protocol: "TCP" | "UDP";
	readonly places: readonly (readonly [address: string, port: number])[];
	readonly endpoints: readonly string[];
}

export const familyOf = (address: string): Family => (address.includes(":") ? "ipv6" : "ipv4");
/** Endpoints of the dumps' node1 are in ep1, and so on. */
export const roleOf = (nodeName: string): string => nodeName.replace("node", "ep");

/** Services that this node is to serve, and all EndpointSlices. */
export async function readDumps(): Promise<{
	readonly services: readonly DumpedService[];
	readonly slices: readonly DumpedSlice[];
}> {
	const lists = await Promise.all(
		DUMPS.map(async (file) => parse(await readFile(join(DUMPS_FOLDER, file), "utf8")) as unknown),
	);
	const objects = lists.flatMap(
		(list) => (list as { items: (DumpedService | DumpedSlice)[] }).items,
	);
	return {
		services: objects.filter((object) => object.kind === "Service").filter(isServed),
		slices: objects.filter((object) => object.kind === "EndpointSlice"),
	};
}

/** Headless Services, ExternalName and those of another proxy are not ours. */
function isServed({ metadata, spec }: DumpedService): boolean {
	const [clusterIp = "None"] = spec.clusterIPs ?? [];
	return (
		clusterIp !== "None" &&
		metadata.labels?.["service.kubernetes.io/service-proxy-name"] === undefined
	);
}

/** What the dumps promise of each port of a Service, in each of its families. */
export function expectedOf(
	service: DumpedService,
	slices: readonly DumpedSlice[],
): readonly ExpectedPort[] {
	const { metadata, spec } = service;
	const own = slices.filter(
		(slice) =>
			slice.metadata.namespace === metadata.namespace &&
			slice.metadata.labels?.["kubernetes.io/service-name"] === metadata.name,
	);
	return (spec.clusterIPs ?? []).flatMap((clusterIp) =>
		(spec.ports ?? []).map((port): ExpectedPort => {
			const family = familyOf(clusterIp);
			const endpoints = own
				.filter(({ addressType }) => addressType.toLowerCase() === family)
				.filter((slice) => slice.ports?.some((one) => (one.name ?? "") === (port.name ?? "")))
				.flatMap((slice) => slice.endpoints ?? [])
				.map(({ nodeName }) => roleOf(nodeName));
			const external = (spec.externalIPs ?? []).filter((address) => familyOf(address) === family);
			return {
				name: `${metadata.namespace}/${metadata.name}:${port.name ?? ""}`,
				family,
				protocol: port.protocol,
				places: [
					...[clusterIp, ...external].map((address) => [address, port.port] as const),
					...(port.nodePort === undefined
						? []
						: NODE[family].map((address) => [address, port.nodePort ?? 0] as const)),
				],
				endpoints: [...new Set(endpoints)],
			};
		}),
	);
}

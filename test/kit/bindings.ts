import type { WantedRules } from "../../src/rules/plan.ts";
import { type IpAddress, ipFamilyOf, parseIpAddress } from "../../src/services/address.ts";
import { NO_CLUSTER_IPS } from "../../src/services/cluster-ips.ts";
import { type NodeNetwork, PLAIN_NETWORK } from "../../src/services/node-network.ts";
import { toPort } from "../../src/services/port.ts";
import {
	type Binding,
	type Clients,
	type EndpointPool,
	type Protocol,
	servicePortKey,
	servicePortName,
	type VirtualAddress,
} from "../../src/services/service-port.ts";
import { aRange } from "./ranges.ts";

export interface BindingFields {
	readonly namespace?: string;
	readonly service?: string;
	readonly portName?: string;
	readonly protocol?: Protocol;
	/** Virtual addresses, all of one family. */
	readonly addresses?: readonly string[];
	readonly port?: number;
	readonly proxyPort?: number;
	readonly listenAddress?: string;
	readonly verdict?: Binding["verdict"];
	readonly pool?: EndpointPool;
	readonly kind?: VirtualAddress["kind"];
	/** Whose traffic comes by the addresses and the node port. */
	readonly clients?: Clients;
	readonly sourceRanges?: readonly string[];
	readonly nodePort?: number;
}

/** A valid binding; a test names only the fields that it is about. */
export function aBinding(fields: BindingFields = {}): Binding {
	const { namespace = "shop", service = "cart", portName = "http", protocol = "tcp" } = fields;
	const { pool = "cluster", nodePort, clients = "all" } = fields;
	const addresses = (fields.addresses ?? ["10.96.0.10"]).map(anAddress);
	const family = ipFamilyOf(addresses[0] ?? anAddress("10.96.0.10"));
	return {
		key: servicePortKey({ namespace, serviceName: service, portName, protocol, family, pool }),
		name: servicePortName(namespace, service, portName),
		protocol,
		family,
		port: toPort(fields.port ?? 80),
		virtualAddresses: addresses.map((address) => aVirtualAddress(address, fields)),
		nodePort: nodePort === undefined ? undefined : { port: toPort(nodePort), clients },
		proxyPort: toPort(fields.proxyPort ?? 30_001),
		listenAddress: fields.listenAddress === undefined ? undefined : anAddress(fields.listenAddress),
		verdict: fields.verdict ?? "serve",
	};
}

export function aVirtualAddress(
	address: IpAddress,
	fields: Pick<BindingFields, "kind" | "clients" | "sourceRanges"> = {},
): VirtualAddress {
	const { kind = "ClusterIP", clients = "all", sourceRanges = [] } = fields;
	return { kind, address, clients, sourceRanges: sourceRanges.map(aRange) };
}

/** What a rule keeper is to bring about, on a node of which nothing is known. */
export function wantedRules(
	bindings: readonly Binding[],
	network: NodeNetwork = PLAIN_NETWORK,
): WantedRules {
	return { bindings, network, healthCheckPorts: [], clusterIps: NO_CLUSTER_IPS };
}

/** @throws {RangeError} for text that is no address. */
export function anAddress(text: string): IpAddress {
	const address = parseIpAddress(text);
	if (address === undefined) throw new RangeError(`Cannot use "${text}" as an address`);
	return address;
}

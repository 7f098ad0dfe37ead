import { type IpAddress, ipFamilyOf, parseIpAddress } from "../../src/services/address.ts";
import { toPort } from "../../src/services/port.ts";
import {
	type Binding,
	type Protocol,
	servicePortKey,
	servicePortName,
} from "../../src/services/service-port.ts";

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
	readonly refuses?: boolean;
}

/** A valid binding; a test names only the fields that it is about. */
export function aBinding(fields: BindingFields = {}): Binding {
	const { namespace = "shop", service = "cart", portName = "http", protocol = "tcp" } = fields;
	const addresses = (fields.addresses ?? ["10.96.0.10"]).map(anAddress);
	const family = ipFamilyOf(addresses[0] ?? anAddress("10.96.0.10"));
	return {
		key: servicePortKey({ namespace, serviceName: service, portName, protocol, family }),
		name: servicePortName(namespace, service, portName),
		protocol,
		family,
		port: toPort(fields.port ?? 80),
		virtualAddresses: addresses.map((address) => ({ kind: "ClusterIP", address })),
		proxyPort: toPort(fields.proxyPort ?? 30_001),
		listenAddress: fields.listenAddress === undefined ? undefined : anAddress(fields.listenAddress),
		refuses: fields.refuses ?? false,
	};
}

/** @throws {RangeError} for text that is no address. */
export function anAddress(text: string): IpAddress {
	const address = parseIpAddress(text);
	if (address === undefined) throw new RangeError(`Cannot use "${text}" as an address`);
	return address;
}

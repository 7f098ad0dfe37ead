import { parseIpAddress } from "../../../src/services/address.ts";
import type { SessionAffinity } from "../../../src/services/objects.ts";
import { toPort } from "../../../src/services/port.ts";
import {
	type Endpoint,
	endpointKey,
	type ServicePort,
	servicePortKey,
	servicePortName,
} from "../../../src/services/service-port.ts";
import type { Log } from "../../../src/shared/log.ts";
import { aVirtualAddress } from "../../kit/bindings.ts";

export function anAddress(text: string) {
	const address = parseIpAddress(text);
	if (address === undefined) throw new RangeError(`Not an address: ${text}`);
	return address;
}

export function anEndpointAt(host: string, port: number, podName?: string): Endpoint {
	const address = anAddress(host);
	return {
		key: endpointKey(address, toPort(port)),
		address,
		port: toPort(port),
		nodeName: undefined,
		zone: undefined,
		podName,
	};
}

export interface ServicePortParts {
	readonly name?: string;
	readonly protocol?: ServicePort["protocol"];
	readonly family?: ServicePort["family"];
	readonly endpoints?: readonly Endpoint[];
	readonly sessionAffinity?: SessionAffinity;
	readonly pool?: ServicePort["pool"];
}

/** "shop/cart:http", 10.96.0.10:80 or fd10:96::10:80. */
export function aServicePort(parts: ServicePortParts = {}): ServicePort {
	const { name = "cart", protocol = "tcp", family = "ipv4", pool = "cluster" } = parts;
	const identity = {
		namespace: "shop",
		serviceName: name,
		portName: "http",
		protocol,
		family,
		pool,
	};
	return {
		...identity,
		key: servicePortKey(identity),
		name: servicePortName("shop", name, "http"),
		port: toPort(80),
		virtualAddresses: [
			aVirtualAddress(anAddress(family === "ipv4" ? "10.96.0.10" : "fd10:96::10")),
		],
		nodePort: undefined,
		whenEmpty: "reject",
		sessionAffinity: parts.sessionAffinity ?? { type: "None" },
		endpoints: parts.endpoints ?? [],
	};
}

export interface LogLine {
	readonly level: "error" | "warn" | "info" | "debug";
	readonly message: string;
	readonly fields: object;
}

/** Keeps what it is told. */
export function aLog(): { readonly log: Log; readonly lines: LogLine[] } {
	const lines: LogLine[] = [];
	const at = (level: LogLine["level"]) => (fields: object, message: string) => {
		lines.push({ level, message, fields });
	};
	const log: Log = {
		error: at("error"),
		warn: at("warn"),
		info: at("info"),
		debug: at("debug"),
		isDebug: () => true,
		child: () => log,
	};
	return { log, lines };
}

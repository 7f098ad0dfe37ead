import { expect, test as it } from "vitest";
import {
	isOwnPort,
	OWN_PORTS_BYTES,
	setOwnPort,
} from "../../../../src/proxies/syscall/own-ports.ts";

it("a port is ours in the protocol and family in which it was noted, until it is not", () => {
	const ports = new Uint8Array(OWN_PORTS_BYTES);
	setOwnPort(ports, "tcp", "ipv4", 65_535, true);
	setOwnPort(ports, "tcp", "ipv6", 65_535, true);
	expect(isOwnPort(ports, "tcp", "ipv4", 65_535)).toBe(true);
	expect(isOwnPort(ports, "udp", "ipv4", 65_535)).toBe(false);
	setOwnPort(ports, "tcp", "ipv4", 65_535, false);
	expect(isOwnPort(ports, "tcp", "ipv4", 65_535)).toBe(false);
	expect(isOwnPort(ports, "tcp", "ipv6", 65_535)).toBe(true);
});

import { describe, expect, test as it } from "vitest";
import { SocketAddress } from "../../../../src/proxies/syscall/socket-address.ts";
import { ipFamilyOf } from "../../../../src/services/address.ts";
import { anAddress } from "../builders.ts";

describe("SocketAddress", () => {
	it.each(["10.2.1.2", "255.255.255.255", "fd10:2:1::2", "::1", "fe80::1"])("holds %s", (text) => {
		const address = anAddress(text);
		const socketAddress = new SocketAddress().set(ipFamilyOf(address), address, 8080);
		expect([socketAddress.address, socketAddress.port]).toEqual([text, 8080]);
		expect(socketAddress.length).toBe(text.includes(":") ? 28 : 16);
	});

	it("is laid out as the kernel wants it", () => {
		const ipv4 = new SocketAddress().set("ipv4", anAddress("10.2.1.2"), 0x1234);
		expect([...ipv4.bytes.subarray(0, 8)]).toEqual([2, 0, 0x12, 0x34, 10, 2, 1, 2]);
		const ipv6 = new SocketAddress().set("ipv6", anAddress("fd10::2"), 80);
		expect([...ipv6.bytes.subarray(0, 10)]).toEqual([10, 0, 0, 80, 0, 0, 0, 0, 0xfd, 0x10]);
		expect(ipv6.bytes[23]).toBe(2);
	});

	it("is every address of the family without one, and forgets what it held", () => {
		const socketAddress = new SocketAddress().set("ipv6", anAddress("fd10::2"), 80);
		expect(socketAddress.set("ipv4", undefined, 0).address).toBe("0.0.0.0");
		expect(socketAddress.set("ipv6", undefined, 0).address).toBe("::");
	});
});

import { networkInterfaces } from "node:os";
import { expect, test as it } from "vitest";
import { LocalAddresses } from "../../../src/proxies/local-addresses.ts";
import { anAddress } from "./builders.ts";

it("LocalAddresses knows loopback", () => {
	const addresses = new LocalAddresses(() => 0);
	expect(addresses.has(anAddress("127.0.0.1"))).toBe(true);
	expect(addresses.has(anAddress("192.0.2.1"))).toBe(false);
});

it("LocalAddresses reads again after a second, and not before", () => {
	let nowMs = 0;
	let reads = 0;
	const read = () => {
		reads += 1;
		return {};
	};
	const addresses = new LocalAddresses(() => nowMs, read);
	for (const atMs of [0, 999, 1000]) {
		nowMs = atMs;
		expect(addresses.has(anAddress("127.0.0.1"))).toBe(false);
	}
	expect(reads).toBe(2);
});

it("LocalAddresses keeps what it knows while it cannot read, and tries again", () => {
	let nowMs = 0;
	let isShort = false;
	const addresses = new LocalAddresses(
		() => nowMs,
		() => {
			if (isShort) throw new Error("uv_interface_addresses returned EMFILE");
			return networkInterfaces();
		},
	);
	const known = () => addresses.has(anAddress("127.0.0.1"));
	expect(known()).toBe(true);
	isShort = true;
	nowMs = 1000;
	expect(known()).toBe(true);
	isShort = false;
	nowMs = 2000;
	expect(known()).toBe(true);
});

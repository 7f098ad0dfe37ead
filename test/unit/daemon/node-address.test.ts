import { describe, expect, test as it } from "vitest";
import { chooseNodeAddress, uplinksOf } from "../../../src/daemon/node-address.ts";
import type { Interfaces } from "../../../src/daemon/node-network.ts";
import { type IpAddress, parseIpAddress } from "../../../src/services/address.ts";

const lo = [
	{ address: "127.0.0.1", internal: true },
	{ address: "::1", internal: true },
];

function ip(text: string): IpAddress {
	const address = parseIpAddress(text);
	if (address === undefined) throw new TypeError(`not an address: ${text}`);
	return address;
}

function choose(
	interfaces: Interfaces,
	options: {
		cluster?: string[];
		current?: string;
		uplinks?: string[];
		family?: "ipv4" | "ipv6";
	} = {},
) {
	return chooseNodeAddress(options.family ?? "ipv4", {
		interfaces,
		clusterAddresses: (options.cluster ?? []).map(ip),
		uplinks: options.uplinks ?? [],
		current: options.current === undefined ? undefined : ip(options.current),
	});
}

const eth0 = [
	{ address: "192.168.0.9", internal: false },
	{ address: "192.168.0.10", internal: false },
	{ address: "fe80::1", internal: false },
	{ address: "fd10::5", internal: false },
];
const bridge = [{ address: "10.244.0.1", internal: false }];

describe("chooseNodeAddress() (classic 9.7.5)", () => {
	it("takes the lowest address of the first interface by name", () => {
		expect(choose({ lo, eth0, cni0: bridge })).toBe("10.244.0.1");
		expect(choose({ lo, eth0 })).toBe("192.168.0.9");
	});

	it("keeps the one in use while the node has it", () => {
		expect(choose({ lo, eth0, cni0: bridge }, { current: "192.168.0.10" })).toBe("192.168.0.10");
		expect(choose({ lo, eth0 }, { current: "10.244.0.1" })).toBe("192.168.0.9");
	});

	it("prefers the address that the cluster names, when the node has it", () => {
		expect(choose({ lo, eth0, cni0: bridge }, { cluster: ["192.168.0.10"] })).toBe("192.168.0.10");
		expect(choose({ lo, eth0 }, { cluster: ["203.0.113.7"] })).toBe("192.168.0.9");
	});

	it("leaves out loopback and link-local addresses, each family by itself", () => {
		expect(choose({ lo, eth0 }, { family: "ipv6" })).toBe("fd10::5");
		expect(choose({ lo, eth9: [{ address: "169.254.1.1", internal: false }] })).toBeUndefined();
		expect(choose({ lo }, { family: "ipv6" })).toBeUndefined();
		expect(choose({})).toBeUndefined();
	});
});

describe("uplinksOf()", () => {
	it("reads the default routes out of /proc/net/route", () => {
		const text = [
			"Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT",
			"eth0\t00000000\t0100A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0",
			"cni0\t0000F40A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0",
			"",
		].join("\n");
		expect(uplinksOf(text)).toEqual(["eth0"]);
		expect(uplinksOf("")).toEqual([]);
	});
});

import { describe, expect, test as it } from "vitest";
import { isTakenBy, parseSocketTable, type WaitingSocket } from "../../../src/daemon/host-ports.ts";
import { toPort } from "../../../src/services/port.ts";
import { anAddress } from "../../kit/bindings.ts";

const HEAD =
	"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode";

describe("parseSocketTable()", () => {
	it("reads what listens over IPv4, and nothing else", () => {
		const text = [
			HEAD,
			"   0: 00000000:7580 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0",
			"   1: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 2 1 0",
			"   2: 0100010A:7581 0200010A:C350 01 00000000:00000000 00:00000000 00000000     0        0 3 1 0",
		].join("\n");
		expect(parseSocketTable(text, "tcp")).toEqual([
			{ protocol: "tcp", address: "0.0.0.0", port: 30_080 },
			{ protocol: "tcp", address: "127.0.0.1", port: 8_080 },
		]);
	});

	it("reads IPv6 addresses, IPv4-mapped ones as IPv4", () => {
		const text = [
			HEAD,
			"   0: 00000000000000000000000000000000:7580 00000000000000000000000000000000:0000 07 0:0 0:0 0 0 0 1",
			"   1: 000010FD000000000000000001000000:0035 00000000000000000000000000000000:0000 07 0:0 0:0 0 0 0 1",
			"   2: 0000000000000000FFFF00000100010A:0036 00000000000000000000000000000000:0000 07 0:0 0:0 0 0 0 1",
		].join("\n");
		expect(parseSocketTable(text, "udp")).toEqual([
			{ protocol: "udp", address: "::", port: 30_080 },
			{ protocol: "udp", address: "fd10::1", port: 53 },
			{ protocol: "udp", address: "10.1.0.1", port: 54 },
		]);
	});

	it("leaves out what it does not understand", () => {
		expect(parseSocketTable("", "tcp")).toEqual([]);
		expect(parseSocketTable(`${HEAD}\n  0: xyz:1 0:0 0A`, "tcp")).toEqual([]);
	});
});

describe("isTakenBy()", () => {
	const socket = (address: string): WaitingSocket[] => [
		{ protocol: "tcp", address: anAddress(address), port: 80 },
	];
	const v4 = { protocol: "tcp", family: "ipv4", port: toPort(80) } as const;

	it.each([
		["0.0.0.0", undefined, true],
		["127.0.0.1", undefined, true],
		["::", undefined, true],
		["fd10::1", undefined, false],
		["0.0.0.0", "10.1.0.1", true],
		["10.1.0.1", "10.1.0.1", true],
		["10.1.0.2", "10.1.0.1", false],
		["::", "10.1.0.1", true],
	])("a socket on %s and the port on %s: %s", (bound, address, isTaken) => {
		const asked = address === undefined ? undefined : anAddress(address);
		expect(isTakenBy(socket(bound), { ...v4, address: asked })).toBe(isTaken);
	});

	it("minds port and protocol", () => {
		expect(isTakenBy(socket("0.0.0.0"), { ...v4, address: undefined, port: toPort(81) })).toBe(
			false,
		);
		expect(isTakenBy(socket("0.0.0.0"), { ...v4, address: undefined, protocol: "udp" })).toBe(
			false,
		);
	});
});

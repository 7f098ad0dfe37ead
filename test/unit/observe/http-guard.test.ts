import type { IncomingHttpHeaders } from "node:http";
import { describe, expect, test as it } from "vitest";
import { isLoopback, refusalOfLocalRequest } from "../../../src/observe/http-guard.ts";

function refusal(headers: IncomingHttpHeaders, remoteAddress: string | undefined = "127.0.0.1") {
	return refusalOfLocalRequest({
		headers: { host: "127.0.0.1:10249", ...headers },
		socket: { remoteAddress },
	});
}

describe("refusalOfLocalRequest()", () => {
	it.each(["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])("lets %s in", (address) => {
		expect(refusal({}, address)).toBeUndefined();
	});

	it.each(["10.1.0.2", "192.0.2.127", "fd10::1", "::ffff:10.1.0.2", undefined])(
		"refuses the peer %s",
		(address) => {
			expect(
				refusalOfLocalRequest({
					headers: { host: "127.0.0.1" },
					socket: { remoteAddress: address },
				}),
			).toMatch(/loopback/);
		},
	);

	it.each(["localhost", "LOCALHOST:10249", "127.0.0.1", "127.1.2.3:1", "[::1]:10249"])(
		"lets the Host %s pass",
		(host) => {
			expect(refusal({ host })).toBeUndefined();
		},
	);

	it.each([
		"evil.example",
		"evil.example:10249",
		"localhost.evil.example",
		"127.0.0.1.evil.example",
		"10.1.0.2:10249",
		"[fd10::1]",
		"",
		undefined,
	])("refuses the Host %s, which a name of somebody else may have led here", (host) => {
		expect(refusal({ host })).toMatch(/Host/);
	});

	it("refuses what a web page sends", () => {
		expect(refusal({ origin: "http://evil.example" })).toMatch(/web pages/);
		expect(refusal({ origin: "null" })).toMatch(/web pages/);
		expect(refusal({ "sec-fetch-site": "cross-site" })).toMatch(/web pages/);
		expect(refusal({ "sec-fetch-site": "none" })).toBeUndefined();
	});

	it.each(["x-forwarded-for", "forwarded", "via", "x-real-ip"])(
		"refuses what a proxy passed on, by %s",
		(name) => {
			expect(refusal({ [name]: "10.1.0.2" })).toMatch(/proxy/);
		},
	);
});

describe("isLoopback()", () => {
	it.each(["127.0.0.1.evil", "1127.0.0.1", "::1%lo", "::2", ""])("is false for %s", (address) => {
		expect(isLoopback(address)).toBe(false);
	});
});

import { expect, test as it } from "vitest";
import { formatListenAddress, parseListenAddress } from "../../../src/config/listen-address.ts";
import { toPort } from "../../../src/services/port.ts";

const port = toPort(10_256);

it.each([
	["127.0.0.1", "127.0.0.1:10256"],
	["127.0.0.1:80", "127.0.0.1:80"],
	["0.0.0.0:65535", "0.0.0.0:65535"],
	["::", "[::]:10256"],
	["[::]", "[::]:10256"],
	["[::1]:80", "[::1]:80"],
	["fd10::1", "[fd10::1]:10256"],
	["[FD10::0:1]:80", "[fd10::1]:80"],
	["::1:80", "[::1:80]:10256"],
])("parseListenAddress(%j) is %s (classic 9.7.1, 9.7.5)", (text, expected) => {
	expect(formatListenAddress(parseListenAddress(text, port))).toBe(expected);
});

it.each([
	"",
	"localhost",
	"localhost:80",
	":80",
	"1.2.3.4:",
	"1.2.3.4:0",
	"1.2.3.4:65536",
	"1.2.3.4:80:80",
	"[1.2.3.4]:80",
	"[::1",
	"::1]:80",
	"[::1]80",
	"[fe80::1%eth0]:80",
	"1.2.3:80",
	"1.2.3.4:8x",
	"10.0.0.1/24",
])("parseListenAddress(%j) is none (classic 9.7.6)", (text) => {
	expect(parseListenAddress(text, port)).toBeUndefined();
});

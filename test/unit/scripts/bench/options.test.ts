import { describe, expect, test as it } from "vitest";
import { benchHelp, readBenchOptions } from "../../../../scripts/bench/options.ts";

const names = {
	measurements: ["bulk", "new", "udp"],
	contenders: [
		{ name: "direct", isDefault: true },
		{ name: "nginx", isDefault: true },
		{ name: "slow", isDefault: false },
	],
};

const read = (...args: readonly string[]) => readBenchOptions(args, names);

describe("readBenchOptions", () => {
	it("measures all by default, but contenders that have to be asked for", () => {
		expect(read()).toEqual({
			rounds: 3,
			seconds: 4,
			measurements: ["bulk", "new", "udp"],
			contenders: ["direct", "nginx"],
			peers: [],
			jsonFile: undefined,
			svgFile: undefined,
			anyway: false,
			bare: false,
			help: false,
		});
	});

	it("takes what is asked for, in the order of the tables", () => {
		expect(
			read("--only=udp,bulk", "--contenders", "slow,direct", "--rounds=5", "--bare", "--json=f"),
		).toMatchObject({
			measurements: ["bulk", "udp"],
			contenders: ["direct", "slow"],
			rounds: 5,
			bare: true,
			jsonFile: "f",
		});
	});

	it.each([
		[["--rounds", "0"], '--rounds: wanted an integer from 1 to 100, got "0"'],
		[["--seconds", "1.5"], '--seconds: wanted an integer from 1 to 60, got "1.5"'],
		[["--only", "bulk,tcp"], '--only: wanted names of bulk, new, udp, got "tcp"'],
		[["--contenders", ""], '--contenders: wanted names of direct, nginx, slow, got ""'],
		[["--frob"], "Unknown option '--frob'"],
		[["more"], "Unexpected argument 'more'"],
		[["--json"], "Option '--json <value>' argument missing"],
	])("refuses %j", (args, message) => {
		expect(() => read(...args)).toThrow(expect.objectContaining({ name: "UsageError" }));
		expect(() => read(...args)).toThrow(message);
	});

	it("joins what is given of one peer", () => {
		expect(
			read(
				"--peer=old=10.1.0.1:80",
				"--peer-udp=old=10.1.0.1:53",
				"--peer-bulk=other=[fd10:1::1]:99",
			).peers,
		).toEqual([
			{ name: "old", target: { address: "10.1.0.1", ports: { http: 80, udp: 53 } } },
			{ name: "other", target: { address: "fd10:1::1", ports: { bulk: 99 } } },
		]);
	});

	it.each([
		["old=example.org:80", 'HOST is an IP address, got "old=example.org:80"'],
		["old=10.1.0.1", 'wanted NAME=HOST:PORT, where HOST is an IP address, got "old=10.1.0.1"'],
		["old=10.1.0.1:65536", "wanted NAME=HOST:PORT"],
		["nginx=10.1.0.1:80", 'wanted a name of its own, got "nginx"'],
	])("refuses --peer %s", (text, message) => {
		expect(() => read("--peer", text)).toThrow(`--peer: `);
		expect(() => read("--peer", text)).toThrow(message);
	});

	it("refuses one peer at two places", () => {
		const message = 'wanted one address and one port of "a", got';
		expect(() => read("--peer=a=10.1.0.1:80", "--peer-udp=a=10.1.0.2:80")).toThrow(message);
		expect(() => read("--peer=a=10.1.0.1:80", "--peer=a=10.1.0.1:81")).toThrow(message);
	});
});

describe("benchHelp", () => {
	it("names every option and all that may be chosen", () => {
		const help = benchHelp(names);
		const options = "only contenders rounds seconds peer peer-bulk peer-udp json svg bare anyway";
		for (const word of options.split(" ")) {
			expect(help).toContain(`--${word}`);
		}
		expect(help).toContain("of bulk, new, udp");
		expect(help).toContain("of direct, nginx; not by default: slow");
	});
});

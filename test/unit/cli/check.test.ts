import { describe, expect, test as it } from "vitest";
import { judge } from "../../../src/cli/check.ts";
import type { HostFacts } from "../../../src/cli/check-facts.ts";
import { configOf, inputs } from "../config/inputs.ts";
import { FINE_FACTS, fakeHost, run } from "./fake-host.ts";

const config = configOf(inputs());

/** Judgements that are not good, of a host that is fine but for some facts. */
function complaints(facts: Partial<HostFacts>, flags: Parameters<typeof inputs>[0] = {}) {
	const judged = judge({ ...FINE_FACTS, ...facts }, configOf(inputs(flags)));
	return judged.filter(({ state }) => state !== "good");
}

it("check of a fine host is all ticks", async () => {
	expect(await run("check --manifests /m")).toEqual({
		status: 0,
		stdout: `✓ Node.js 26.10.0
✓ may change packet rules (CAP_NET_ADMIN, CAP_NET_RAW)
✓ iptables 1.8.9 (nf_tables), chosen since it holds more rules
✓ the kernel takes our ipv4 rules (tried in a network namespace of its own)
✓ the kernel takes our ipv6 rules (tried in a network namespace of its own)
✓ the conntrack command is there
✓ connection tracking is left as it is
✓ 1048576 file descriptors: about 524288 connections
✓ manifests /m: can be read
✓ 0.0.0.0:10256 is free (--healthz-bind-address)
✓ 127.0.0.1:10249 is free (--metrics-bind-address)
✓ no rules of another kube-proxy
✓ the kernel has no IPVS, and none is needed
kube-userproxy can run here
`,
		stderr: "",
	});
});

it("check of a bare host says what to do and ends with 1 (case 36e)", async () => {
	const facts: HostFacts = {
		...FINE_FACTS,
		nodeVersion: "20.1.0",
		capabilities: 0n,
		tables: { state: "unusable", reason: "iptables is not installed", isPermission: false },
		trials: [],
		conntrack: "missing",
	};
	const host = fakeHost({ gatherFacts: () => Promise.resolve(facts) });
	const { status, stdout } = await run("check --manifests /m", host);
	expect(status).toBe(1);
	expect(stdout.split("\n").slice(0, 9)).toEqual([
		"✗ Node.js 20.1.0 is too old",
		"    → run it on Node.js 24 or newer",
		"✗ may not change packet rules: lacks CAP_NET_ADMIN and CAP_NET_RAW",
		"    → run it as root, or with these capabilities (the systemd unit has them)",
		"✗ packet rules: iptables is not installed",
		"    → install iptables (Debian: apt-get install iptables), or give --rules none",
		"! no conntrack command: UDP clients that talk without a pause may stay with an endpoint or port that is gone",
		"    → install it (Debian: apt-get install conntrack)",
		"✓ connection tracking is left as it is",
	]);
	expect(stdout).toContain("kube-userproxy cannot run here: 3 things are to be done\n");
});

it("check colours its marks on a terminal that wants it", async () => {
	const { stdout } = await run("check --manifests /m", fakeHost({}, { colours: true }));
	expect(stdout).toContain("\u001b[32m✓\u001b[39m Node.js");
});

it("check judges the configuration first", async () => {
	const host = fakeHost({ gatherFacts: () => Promise.reject(new Error("not to be called")) });
	const { status, stderr } = await run("check --manifests /m --udp-timeout x", host);
	expect(status).toBe(2);
	expect(stderr).toContain("--udp-timeout: wanted");
});

it("check shows what came from outside, and does not let the terminal obey", async () => {
	const sources = [{ name: "manifests /m", isComplete: true, problems: ["\u001b[2J"] }];
	const host = fakeHost({ gatherFacts: () => Promise.resolve({ ...FINE_FACTS, sources }) });
	expect((await run("check --manifests /m", host)).stdout).toContain("! manifests /m: \\u001b[2J");
});

describe("judge()", () => {
	it("wants no rights or tools for rules where there are to be none", () => {
		const setting = {
			name: "nf_conntrack_max",
			path: "/p",
			wanted: 2,
			isMinimum: true,
			leaveAlone: "--x",
		};
		const facts: Partial<HostFacts> = {
			capabilities: 0n,
			trials: [],
			conntrack: "missing",
			conntrackSettings: [{ setting, state: "locked", found: 1, problem: "EACCES" }],
		};
		expect(complaints(facts, { rules: ["none"] })).toEqual([
			{ state: "note", text: expect.stringContaining("--rules none") },
		]);
	});

	it("finds each capability missing by its bit", () => {
		expect(complaints({ capabilities: 1n << 12n })[0]?.text).toContain("lacks CAP_NET_RAW");
		expect(complaints({ capabilities: 1n << 13n })[0]?.text).toContain("lacks CAP_NET_ADMIN");
		expect(complaints({ capabilities: (1n << 12n) | (1n << 13n) })).toEqual([]);
		expect(complaints({ capabilities: undefined })[0]?.state).toBe("note");
	});

	it("a family without rules is a note, rules that the kernel refuses are bad", () => {
		const unavailable = [{ family: "ipv6", reason: "the kernel has no IPv6" }];
		const tables = { ...FINE_FACTS.tables, unavailable } as HostFacts["tables"];
		expect(complaints({ tables })).toEqual([
			{
				state: "note",
				text: "no rules for ipv6: the kernel has no IPv6; its Services are not served",
			},
		]);
		const trials = [{ family: "ipv4", how: "namespace", problem: "no REDIRECT" }] as const;
		expect(complaints({ trials })[0]).toMatchObject({
			state: "bad",
			text: "the kernel does not take our ipv4 rules: no REDIRECT",
		});
	});

	it("a trial that only read the text does not claim more", () => {
		const trials = [{ family: "ipv4", how: "text", problem: undefined }] as const;
		const texts = judge({ ...FINE_FACTS, trials }, config).map(({ text }) => text);
		expect(texts.join("\n")).toContain("whether the kernel takes them was not tried");
	});

	it("without permission to read rules the remedy is root, not a package", () => {
		const tables = { state: "unusable", reason: "no permission", isPermission: true } as const;
		expect(complaints({ tables })[0]?.remedy).toContain("as root");
		// And no claim about rules that nobody could look at.
		expect(complaints({ tables })[1]?.text).toContain("cannot be seen without root");
	});

	it("a source that cannot be read is bad, objects left out are notes, and not all are told", () => {
		const name = "kubernetes https://a";
		const gone = [{ name, isComplete: false, problems: ["401 Unauthorized"] }];
		expect(complaints({ sources: gone })).toEqual([
			{ state: "bad", text: "kubernetes https://a: 401 Unauthorized" },
		]);
		const problems = Array.from({ length: 12 }, (_, index) => `Service a/${index} is left out`);
		const told = complaints({ sources: [{ name, isComplete: true, problems }] });
		expect(told).toHaveLength(11);
		expect(told.every(({ state }) => state === "note")).toBe(true);
		expect(told.at(-1)?.text).toBe("kubernetes https://a: 2 more problems");
	});

	it("a taken address is bad only where the daemon would end", () => {
		const listens = [
			{ flag: "--healthz-bind-address", address: "0.0.0.0:10256", code: "EADDRINUSE" },
		] as const;
		expect(complaints({ listens })[0]).toMatchObject({
			state: "note",
			text: "0.0.0.0:10256 is in use already (--healthz-bind-address)",
		});
		expect(complaints({ listens }, { "bind-address-hard-fail": ["true"] })[0]?.state).toBe("bad");
	});

	it("few descriptors are a note", () => {
		expect(complaints({ descriptorLimit: 1024 })[0]).toMatchObject({
			state: "note",
			text: "only 1024 file descriptors: about 512 connections, then clients wait",
		});
	});

	it("another system than Linux is bad", () => {
		expect(complaints({ platform: "darwin" })[0]?.state).toBe("bad");
	});
});

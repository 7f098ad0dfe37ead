import { describe, expect, test as it } from "vitest";
import { FLAG_NAMES } from "../../../src/config/flags.ts";
import { fakeHost, run } from "./fake-host.ts";

it("without a command says which there are, with status 2", async () => {
	expect(await run("")).toEqual({
		status: 2,
		stdout: "",
		stderr:
			"kube-userproxy: wanted a command: run, cleanup, check, status, connections, plan; see --help\n",
	});
});

it.each([
	["foo", 'wanted a command (run, cleanup, check, status, connections, plan), got "foo"'],
	["--kubeconfig /k", "wanted a command before --kubeconfig; the daemon's flags follow run"],
	["\u001b[31m", 'got "\\u001b[31m"'],
])("%j is told what is missing", async (line, text) => {
	const { status, stderr } = await run(line);
	expect(status).toBe(2);
	expect(stderr).toContain(text);
});

it("--version prints the version", async () => {
	expect(await run("--version")).toEqual({ status: 0, stdout: "1.2.3\n", stderr: "" });
	expect((await run("run --version")).stdout).toBe("1.2.3\n");
});

it("--help names every command and the exit statuses", async () => {
	const { status, stdout } = await run("--help");
	expect(status).toBe(0);
	for (const name of ["run", "cleanup", "check", "status", "connections", "plan"]) {
		expect(stdout).toMatch(new RegExp(`^  ${name} `, "m"));
	}
	expect(stdout).toContain("Exit status: 0 fine, 1 failed, 2 wrong usage or configuration.");
});

it("run --help has every flag, in its group, with its default", async () => {
	const { stdout } = await run("run --help");
	for (const name of FLAG_NAMES) expect(stdout).toContain(`--${name} `);
	expect(stdout).toMatch(/^Relaying:\n {2}--relay <ENGINE>/m);
	expect(stdout).toMatch(/--drain-timeout <DURATION> .*\n.*\(default: 30s\)/);
	expect(stdout).not.toContain("preset");
});

describe("what is wrong with a command line", () => {
	it("is told all at once, one line each", async () => {
		const { status, stderr } = await run(
			"run --udp-timeout abc --manifests /m --clustr-cidr 10.0.0.0/8 --udp-timout=3 stray --rules x",
		);
		expect(status).toBe(2);
		expect(stderr.split("\n")).toEqual([
			"kube-userproxy: --clustr-cidr: unknown; did you mean --cluster-cidr?",
			"kube-userproxy: --udp-timout: unknown; did you mean --udp-timeout?",
			'kube-userproxy: "stray": is not expected here',
			'kube-userproxy: --rules: wanted auto, iptables or none, got "x"',
			'kube-userproxy: --udp-timeout: wanted a duration such as 30s, got "abc"',
			"",
		]);
	});

	it("starts nothing", async () => {
		const host = fakeHost();
		await run("run --manifests /m --bogus", host);
		expect(host.started()).toBeUndefined();
	});

	it("a flag without its value", async () => {
		expect(await run("run --udp-timeout")).toMatchObject({
			status: 2,
			stderr: "kube-userproxy: --udp-timeout: wanted DURATION, got nothing\n",
		});
	});

	it.each([
		["--proxy-mode=ipvs", "there is one mode here"],
		["--masquerade-all", "not needed: what is relayed comes from the node's own address"],
		["--iptables-masquerade-bit 14", "not needed"],
		["--ipvs-scheduler lc", "not there yet: endpoints are taken in turn"],
		["--ipvs-strict-arp", "does not use IPVS"],
		["--conntrack-max 1", "gone from kube-proxy too; use --conntrack-max-per-core"],
		["--init-only", "what of the host's settings may not be changed is told"],
		["--feature-gates A=true", "no feature gates"],
		["--healthz-port 1", "use --healthz-bind-address"],
		["--logtostderr", "standard output"],
		["--log_dir /x", "standard output"],
	])("kube-proxy's %s has its own sentence", async (flags, sentence) => {
		const { status, stderr } = await run(`run --manifests /m ${flags}`);
		expect(status).toBe(2);
		expect(stderr.trimEnd().split("\n")).toHaveLength(1);
		expect(stderr).toContain(sentence);
	});

	it("--rules nftables is refused: it is not there yet", async () => {
		const { status, stderr } = await run("run --manifests /m --rules nftables");
		expect(status).toBe(2);
		expect(stderr).toMatch(/^kube-userproxy: --rules: wanted /);
	});

	it("a flag of run where another command does not have it", async () => {
		expect((await run("plan --manifests /m --log-level debug")).stderr).toContain(
			"--log-level: is a flag of run, not of this command",
		);
		expect((await run("check --manifests /m --cleanup")).stderr).toContain(
			"--cleanup: is a flag of run, not of this command",
		);
	});

	it.each([
		"cleanup x",
		"status x",
		"connections x",
		"plan --manifests /m x",
		"check --manifests /m x",
	])("a word without a flag: %s", async (line) => {
		const { status, stderr } = await run(line);
		expect(status).toBe(2);
		expect(stderr).toBe('kube-userproxy: "x": is not expected here\n');
	});

	it("wrong values of the asking commands", async () => {
		const { status, stderr } = await run(
			"connections --client x --service y --status-address localhost:1",
		);
		expect(status).toBe(2);
		expect(stderr.split("\n")).toEqual([
			'kube-userproxy: --status-address: wanted an address such as 127.0.0.1:10249, got "localhost:1"',
			'kube-userproxy: --service: wanted NAMESPACE/NAME or NAMESPACE/NAME:PORT, got "y"',
			'kube-userproxy: --client: wanted an IP address, got "x"',
			"",
		]);
		expect((await run("plan --manifests /m --family ipx")).stderr).toContain(
			"--family: wanted ipv4 or ipv6",
		);
	});

	it("is shown, not obeyed by the terminal", async () => {
		const { stderr } = await run("run --manifests /m --\u001b[31m \u009b");
		expect(stderr).toContain("\\u001b[31m");
		expect(stderr).not.toContain("\u001b");
		expect(stderr).not.toContain("\u009b");
	});
});

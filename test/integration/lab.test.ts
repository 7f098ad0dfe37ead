import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, test as it } from "vitest";
import { tally } from "../kit/agent.ts";
import { createLab, type Lab, type LabOptions, labProblem } from "../kit/lab.ts";
import { exited } from "../kit/lab-command.ts";
import { planLab } from "../kit/lab-plan.ts";
import { namespaceNames, pidsInside, sweepLabs } from "../kit/lab-sweep.ts";
import { savedRules } from "../kit/service-lab.ts";
import { CLOSE_WAIT } from "../kit/setting-files.ts";
import { closeSpareLabs, giveBack, takeLab } from "../kit/spare-labs.ts";

const open: Lab[] = [];
const aLab = async (options?: LabOptions): Promise<Lab> => {
	const lab = await createLab(options);
	open.push(lab);
	return lab;
};
afterEach(async () => {
	await Promise.all(open.splice(0).map((lab) => lab.close()));
});

const namesOf = (lab: Lab) =>
	[lab.node, lab.client, lab.outside, ...lab.endpoints].map(({ name }) => name);

/** The pid of every process, ours or not, as the kernel lists them. */
const isRunning = (pid: number) => readdirSync("/proc").includes(String(pid));

describe("planLab()", () => {
	it("gives client, outside and endpoints the addresses of the plan", () => {
		const { peers } = planLab("x-", 2);
		expect(peers.map(({ namespace, addresses }) => [namespace, addresses.ipv4])).toEqual([
			["x-client", "10.1.0.2"],
			["x-outside", "10.3.0.2"],
			["x-ep1", "10.2.1.2"],
			["x-ep2", "10.2.2.2"],
		]);
		expect(peers[3]?.addresses.nodeIpv6).toBe("fd10:2:2::1");
	});

	it("refuses more endpoints than there are addresses", () => {
		expect(() => planLab("x-", 201)).toThrow(RangeError);
	});
});

describe.skipIf(labProblem() !== undefined)("a lab", () => {
	it("joins every namespace with the node, in both families, at once", async () => {
		const lab = await aLab({ endpoints: 2 });
		const server = await lab.endpoints[1]?.agent();
		await server?.serveTcp({ mode: "greet", name: "ep2", port: 8080 });
		const addresses = ["10.2.2.2", ...(lab.ipv6 ? ["fd10:2:2::2"] : [])];
		for (const from of [lab.client, lab.outside, lab.node, ...lab.endpoints]) {
			const agent = await from.agent();
			for (const address of addresses) {
				expect(tally(await agent.tcp({ address, port: 8080 }))).toEqual({ ep2: 1 });
			}
		}
	});

	it("routes Service addresses to the node, and what nobody serves on to outside", async () => {
		const lab = await aLab({ endpoints: 1 });
		for (const from of [lab.client, ...lab.endpoints]) {
			expect(await from.ip("route", "get", "10.96.0.10")).toContain("via 10.");
		}
		expect(await lab.node.ip("route", "get", "10.96.0.10")).toContain("via 10.3.0.2");
	});

	it("lives beside other labs of the same process", async () => {
		const labs = await Promise.all([aLab({ endpoints: 1 }), aLab({ endpoints: 1 })]);
		expect(new Set(labs.flatMap(namesOf)).size).toBe(8);
	});

	it("leaves nothing when it closes, and may be closed twice", async () => {
		const lab = await aLab({ endpoints: 1 });
		const agent = await lab.client.agent();
		await lab.node.agent();
		await lab.close();
		await lab.close();
		expect(namesOf(lab).filter((name) => namespaceNames().includes(name))).toEqual([]);
		expect(isRunning(agent.pid ?? 0)).toBe(false);
	});

	it("goes silent and speaks again", async () => {
		const lab = await aLab({ endpoints: 1 });
		const [endpoint] = lab.endpoints;
		const client = await lab.client.agent();
		await (await endpoint?.agent())?.serveTcp({ mode: "greet", name: "ep1", port: 8080 });
		await endpoint?.goSilent(8080);
		const dead = await client.tcp({ address: "10.2.1.2", port: 8080, timeoutMs: 150 });
		expect(dead).toMatchObject([{ error: "TIMEOUT", connected: false }]);
		await endpoint?.speakAgain(8080);
		expect(tally(await client.tcp({ address: "10.2.1.2", port: 8080 }))).toEqual({ ep1: 1 });
	});

	it("is removed by a sweep after its process was killed, and the process's children are gone", async () => {
		const orphan = await makeOrphanLab();
		expect(isRunning(orphan.agent)).toBe(false);
		// Or by another test's that came first.
		sweepLabs();
		expect(namespaceNames().filter((name) => name.startsWith(`kup-${orphan.pid}-`))).toEqual([]);
	});

	it("removes itself when its process gets SIGINT", async () => {
		const child = startLabMaker();
		const { pid } = await firstLine(child);
		child.kill("SIGINT");
		await exited(child);
		expect(child.signalCode).toBe("SIGINT");
		expect(namespaceNames().filter((name) => name.startsWith(`kup-${pid}-`))).toEqual([]);
	});

	it("leaves nothing when its process ends while it is being built", async () => {
		const makers = [0, 2, 4, 8, 16, 32].map((ms) =>
			startProcess(`void createLab({ endpoints: 3 }); setTimeout(() => process.exit(0), ${ms});`),
		);
		await Promise.all(makers.map(exited));
		const left = makers.flatMap(({ pid }) =>
			namespaceNames().filter((name) => name.startsWith(`kup-${pid}-`)),
		);
		expect(left).toEqual([]);
	});

	it("a sweep leaves the labs of living processes and foreign namespaces alone", async () => {
		const lab = await aLab({ endpoints: 0 });
		sweepLabs();
		expect(namespaceNames()).toEqual(expect.arrayContaining(namesOf(lab)));
		expect(pidsInside(lab.node.name)).toEqual([]);
	});
});

describe.skipIf(labProblem() !== undefined)("a lab that a test gave back", () => {
	afterEach(closeSpareLabs);

	it("is as new for the next: no process, server, rule, flow or setting of before", async () => {
		const lab = await takeLab(1);
		const { node, endpoints } = lab;
		const serving = await endpoints[0]?.agent();
		await serving?.serveTcp({ mode: "greet", name: "ep1", port: 8080 });
		node.spawn("sleep", ["600"]);
		const nodeScript = `require("node:fs").writeFileSync("${CLOSE_WAIT}", "77")`;
		await node.exec(process.execPath, ["-e", nodeScript]);
		await node.exec("iptables", ["-A", "INPUT", "-m", "conntrack", "--ctstate", "NEW"]);
		await node.exec("iptables", ["-P", "FORWARD", "DROP"]);
		await node.exec("nft", ["add", "table", "ip6", "kube-proxy"]);
		const client = await lab.client.agent();
		await client.udp({ address: node.ipv4, port: 9, timeoutMs: 1 });
		const flows = async () => (await node.exec("conntrack", ["-L"])).stdout;
		expect(await flows()).not.toBe("");
		await giveBack(lab);

		expect(await takeLab(1)).toBe(lab);
		expect(pidsInside(node.name)).toEqual([]);
		expect(await flows()).toBe("");
		expect((await node.exec("nft", ["list", "ruleset"])).stdout).toBe("");
		expect(await savedRules(node)).toEqual([]);
		expect((await node.exec("cat", [CLOSE_WAIT])).stdout).toBe("60\n");
		const [result] = (await serving?.tcp({ address: "127.0.0.1", port: 8080 })) ?? [];
		expect(result?.error).toBe("ECONNREFUSED");
		await giveBack(lab);
	});

	it.each<[string, (lab: Lab) => Promise<unknown>]>([
		["a route", ({ client }) => client.ip("route", "add", "192.0.2.0/24", "via", "10.1.0.1")],
		["a sysctl", ({ node }) => node.sysctl({ "net.ipv4.tcp_syncookies": "0" })],
		["a silent port", ({ client }) => client.goSilent(9)],
		[
			"a table of legacy iptables",
			({ node }) => node.exec("iptables-legacy", ["-P", "INPUT", "DROP"]),
		],
		["who knows what", ({ node }) => node.exec("true", [])],
		[
			"an agent that is busy",
			async ({ client }) => {
				const agent = await client.agent();
				void agent.udp({ address: "10.1.0.1", port: 9, timeoutMs: 60_000 }).catch(() => {});
			},
		],
	])("is closed after %s", async (_what, alter) => {
		const lab = await takeLab(0);
		await alter(lab);
		await giveBack(lab);
		expect(namespaceNames()).not.toContain(lab.node.name);
		const next = await takeLab(0);
		expect(next).not.toBe(lab);
		await giveBack(next);
	});
});

/** Another process that makes a lab with an agent in it, says so, and waits. */
const startLabMaker = () =>
	startProcess(`
		const lab = await createLab({ endpoints: 0 });
		const agent = await lab.client.agent();
		console.log(JSON.stringify({ pid: process.pid, agent: agent.pid }));`);

function startProcess(script: string) {
	const kit = fileURLToPath(new URL("../kit/lab.ts", import.meta.url));
	const whole = `const { createLab } = await import(${JSON.stringify(kit)}); ${script}`;
	return spawn(process.execPath, ["--input-type=module", "-e", whole], {
		stdio: ["ignore", "pipe", "inherit"],
	});
}

async function firstLine(child: ReturnType<typeof startProcess>) {
	const [line] = await once(createInterface({ input: child.stdout }), "line");
	return JSON.parse(String(line)) as { pid: number; agent: number };
}

/** A lab whose maker is dead of SIGKILL, and whose agent is gone. */
async function makeOrphanLab(): Promise<{ pid: number; agent: number }> {
	const child = startLabMaker();
	const orphan = await firstLine(child);
	child.kill("SIGKILL");
	await exited(child);
	await expect.poll(() => isRunning(orphan.agent), { timeout: 5000 }).toBe(false);
	return orphan;
}

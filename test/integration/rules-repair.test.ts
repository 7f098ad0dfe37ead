import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { CommandRunner } from "../../src/rules/command-runner.ts";
import type { RuleKeeper } from "../../src/rules/rule-keeper.ts";
import type { Variant } from "../../src/rules/xtables.ts";
import type { Agent } from "../kit/agent.ts";
import { aBinding, wantedRules } from "../kit/bindings.ts";
import {
	createRulesLab,
	never,
	type RulesLab,
	rulesLabProblem,
	sweepRules,
} from "../kit/rules-lab.ts";

const PROXY_PORT = 21_001;
const web = aBinding({ addresses: ["10.96.0.10"], port: 80, proxyPort: PROXY_PORT });
const other = aBinding({
	service: "other",
	addresses: ["10.96.0.11"],
	port: 80,
	proxyPort: 21_002,
});

describe.each(["nft", "legacy"] as const)("rules kept in %s", (variant) => {
	const problem = rulesLabProblem(variant);
	describe.skipIf(problem !== undefined)(problem ?? "on a real kernel", () => {
		repairTests(variant);
	});
});

function repairTests(variant: Variant): void {
	let rules: RulesLab;
	let keeper: RuleKeeper;
	let client: Agent;

	beforeAll(async () => {
		rules = await createRulesLab(variant);
		client = await rules.lab.client.agent();
		const node = await rules.lab.node.agent();
		await node.serveTcp({ mode: "echo", name: "tcp", port: PROXY_PORT, address: "0.0.0.0" });
		keeper = await rules.keeper();
	});

	afterEach(async () => {
		await keeper.remove(never);
		expect(await sweepRules(rules)).toEqual([]);
	});

	afterAll(async () => {
		await rules.lab.close();
	});

	const ofIpv4 = async (outcome: ReturnType<RuleKeeper["apply"]>) =>
		(await outcome).families[0]?.result;
	const isServed = async () => {
		const [result] = await client.tcp({
			address: "10.96.0.10",
			port: 80,
			send: "x",
			timeoutMs: 5_000,
		});
		return result?.answer === "x";
	};
	/** Rules and chains without counters, comments and the time that the listing was made. */
	const listing = async () =>
		(await rules.save())
			.split("\n")
			.filter((line) => /^(?:-A|\*|:KUBE)/.test(line))
			.join("\n");

	it.each([
		["a flush of nat", ["-t nat -F"]],
		["a deleted jump", ["-t nat -D OUTPUT 1"]],
		["a rule in front of our jump", ["-t nat -I PREROUTING -j ACCEPT"]],
		["a rule behind our last jump", ["-t nat -A OUTPUT -p icmp -j ACCEPT"]],
		["an emptied chain", ["-F KUBE-NODEPORT-NON-LOCAL"]],
		["a rule in our chain", ["-t nat -I KUBE-PORTALS-CONTAINER -j RETURN"]],
		["a doubled jump", ["-t nat -A PREROUTING -j KUBE-PORTALS-CONTAINER"]],
		[
			"chains that are gone",
			[
				"-D INPUT -m comment --comment Ensure\u00a0that\u00a0non-local\u00a0NodePort\u00a0traffic\u00a0can\u00a0flow -j KUBE-NODEPORT-NON-LOCAL",
				"-F KUBE-NODEPORT-NON-LOCAL",
				"-X KUBE-NODEPORT-NON-LOCAL",
			],
		],
	])(
		"are put right after %s, and no connection is cut (case 28a, case 28b, case 28c)",
		async (_, damage) => {
			await keeper.apply(wantedRules([web]), never);
			const ours = (await listing()).split("\n").filter((line) => line.includes("KUBE"));
			const connection = await client.connect({ address: "10.96.0.10", port: 80 });
			for (const command of damage) {
				const words = command.split(" ").map((word) => word.replaceAll("\u00a0", " "));
				await rules.lab.node.exec(`iptables-${variant}`, words);
			}

			expect(await ofIpv4(keeper.verify(never))).toMatchObject({ state: "repaired" });

			const repaired = await listing();
			expect(repaired.split("\n").filter((line) => line.includes("KUBE"))).toEqual(ours);
			expect(await isServed()).toBe(true);
			await connection.write("still");
			expect((await connection.read(5)).bytes).toBe(5);
			await connection.finish("destroy");
			expect(await ofIpv4(keeper.verify(never))).toEqual({ state: "intact" });
			await rules.lab.node.exec(`iptables-${variant}`, ["-t", "nat", "-F"]);
		},
	);

	it("are put right after somebody restored a saved file without them (case 28d)", async () => {
		const saved = await rules.save();
		await keeper.apply(wantedRules([web]), never);
		await rules.lab.node.exec(`iptables-${variant}-restore`, [], {
			input: saved.includes("*nat") ? saved : `${saved}*nat\nCOMMIT\n`,
		});
		expect(await listing()).not.toContain("KUBE");

		expect(await ofIpv4(keeper.verify(never))).toMatchObject({ state: "repaired" });
		expect(await isServed()).toBe(true);
	});

	it("do not multiply, however often they are applied and verified, and by whom (case 32a)", async () => {
		await keeper.apply(wantedRules([web, other]), never);
		const once = await listing();

		for (let round = 0; round < 10; round += 1) {
			const successor = await rules.keeper();
			await successor.apply(wantedRules([web, other]), never);
			await successor.verify(never);
			await keeper.verify(never);
		}

		expect(await listing()).toBe(once);
	});

	it("do not multiply while iptables-save lists nothing, and go all the same (case 32b)", async () => {
		const saving = { showsNothing: false };
		const blind = await rules.keeper(forgetful(rules.runner, saving));
		await blind.apply(wantedRules([web]), never);
		const once = await listing();
		saving.showsNothing = true;
		for (let round = 0; round < 3; round += 1) {
			expect(await ofIpv4(blind.verify(never))).toMatchObject({
				state: "failed",
				error: { code: "RULES_NOT_IN_FORCE" },
			});
			expect(await ofIpv4(blind.apply(wantedRules([web]), never))).toMatchObject({
				state: "failed",
			});
		}
		expect((await listing()).split("\n").toSorted()).toEqual(once.split("\n").toSorted());
		expect(await isServed()).toBe(true);

		expect(await ofIpv4(blind.remove(never))).toMatchObject({ state: "applied" });
		expect(await listing()).not.toContain("KUBE");
	});

	it("that were never seen leave no jump behind, and go all the same", async () => {
		const blind = await rules.keeper(forgetful(rules.runner, { showsNothing: true }));
		for (let round = 0; round < 3; round += 1) {
			expect(await ofIpv4(blind.apply(wantedRules([web]), never))).toMatchObject({
				state: "failed",
			});
			expect(await listing()).not.toMatch(/-j KUBE/);
		}
		expect(await ofIpv4(blind.remove(never))).toMatchObject({ state: "applied" });
		expect(await listing()).not.toContain("KUBE");
	});

	it("take names of any length and content (case 32c)", async () => {
		const hostile = aBinding({
			namespace: "a".repeat(150),
			service: "b".repeat(150),
			portName: 'x"\n-I INPUT -j DROP\n',
			addresses: ["10.96.0.12"],
		});

		expect(await ofIpv4(keeper.apply(wantedRules([web, hostile]), never))).toMatchObject({
			state: "applied",
		});
		expect(await ofIpv4(keeper.verify(never))).toEqual({ state: "intact" });
		expect(await listing()).not.toMatch(/^-A INPUT -j DROP$/m);
		expect(await isServed()).toBe(true);
	});

	it("stay as they were when the second table is refused, and go when it was the first apply", async () => {
		const before = await listing();
		const broken = await rules.keeper(corruptNat(rules.runner));
		expect(await ofIpv4(broken.apply(wantedRules([web]), never))).toMatchObject({
			state: "failed",
			error: { code: "RULES_REFUSED", line: expect.stringContaining("-A KUBE-PORTALS-HOST -d") },
		});
		const nothing = (await listing()).replaceAll("*nat\n", "").trim();
		expect(nothing).toBe(before.replaceAll("*nat\n", "").trim());

		await keeper.apply(wantedRules([web]), never);
		const inForce = await listing();
		expect(await ofIpv4(broken.apply(wantedRules([other]), never))).toMatchObject({
			state: "failed",
		});

		expect(await listing()).toBe(inForce);
		expect(await isServed()).toBe(true);
	});

	it("of a predecessor are replaced in one step, whatever its proxy port (case 22a, case 22e, case 39b)", async () => {
		await keeper.apply(wantedRules([{ ...web, proxyPort: other.proxyPort }]), never);
		const successor = await rules.keeper();

		expect(await successor.previous(never)).toMatchObject([{ key: web.key, proxyPort: 21_002 }]);
		await successor.apply(wantedRules([web]), never);

		expect(await isServed()).toBe(true);
		expect((await listing()).match(/-d 10\.96\.0\.10/g)).toHaveLength(2);
	});
}

/** As with an iptables-save that ends well and lists nothing, while told so. */
function forgetful(
	inner: CommandRunner,
	saving: { readonly showsNothing: boolean },
): CommandRunner {
	return {
		run: async (file, args, options) => {
			if (!file.endsWith("-save") || !saving.showsNothing) {
				return await inner.run(file, args, options);
			}
			return { stdout: "", stderr: "" };
		},
	};
}

/** Spoils what is meant for nat on its way to the kernel. */
function corruptNat(inner: CommandRunner): CommandRunner {
	return {
		run: (file, args, options) =>
			inner.run(file, args, {
				...options,
				...(options.input === undefined
					? {}
					: { input: options.input.replace("-A KUBE-PORTALS-HOST", "-A NO-SUCH-CHAIN") }),
			}),
	};
}

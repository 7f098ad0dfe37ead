import { expect, it } from "vitest";
import { CommandError } from "../../../src/rules/command-error.ts";
import { openRuleKeeper, readTextFile } from "../../../src/rules/open-rule-keeper.ts";
import { FakeXtables } from "../../kit/fake-xtables.ts";

const { signal } = new AbortController();

it("openRuleKeeper() chooses what the host has and changes nothing", async () => {
	const runner = new FakeXtables();

	const keeper = await openRuleKeeper({ runner, signal, readTextFile: () => Promise.resolve("") });

	expect(keeper.facts()).toMatchObject({ variant: "nft", version: "1.8.9", unavailable: [] });
	expect(runner.ran.filter((command) => command.includes("--noflush"))).toEqual([]);
});

it("openRuleKeeper() reports a family that the kernel does not have", async () => {
	const readFile = (path: string) => Promise.resolve(path.includes("if_inet6") ? undefined : "");
	const runner = new FakeXtables();

	const keeper = await openRuleKeeper({ runner, signal, readTextFile: readFile });

	expect(keeper.facts().unavailable).toEqual([
		{ family: "ipv6", reason: "the kernel has no IPv6" },
	]);
	expect((await keeper.apply([], signal)).families[1]?.result).toEqual({
		state: "unavailable",
		reason: "the kernel has no IPv6",
		unserved: 0,
	});
});

it("openRuleKeeper() says that nothing is installed", async () => {
	const runner = {
		run: (file: string) => Promise.reject(new CommandError("COMMAND_NOT_INSTALLED", { file })),
	};

	await expect(
		openRuleKeeper({ runner, signal, readTextFile: () => Promise.resolve("") }),
	).rejects.toMatchObject({
		code: "NO_RULES_SUPPORT",
		message: expect.stringContaining("iptables is not installed"),
	});
});

it("readTextFile() of what is not there", async () => {
	expect(await readTextFile("/proc/self/status")).toContain("Name:");
	expect(await readTextFile("/no/such/file")).toBeUndefined();
});

import { expect, test as it } from "vitest";
import { platformProblem } from "../../../src/system/platform-problem.ts";

it.each(["x64", "arm64"])("platformProblem() has nothing against Linux on %s", (arch) => {
	expect(platformProblem("linux", arch)).toBeUndefined();
});

it.each([
	["linux", "arm"],
	["linux", "riscv64"],
	["darwin", "arm64"],
])("platformProblem() says what is wanted and what %s on %s is", (platform, arch) => {
	expect(platformProblem(platform, arch)).toBe(
		`wanted Linux on x64 or arm64, got ${platform} on ${arch}`,
	);
});

/** Where the layouts of libc.ts are right, and koffi has what it takes. */
const ARCHITECTURES: readonly string[] = ["x64", "arm64"];

/**
 * Why system calls cannot be made on such a machine; undefined where they can.
 *
 * To be asked before libc.ts is loaded: with a wrong layout a call writes where
 * it must not, which no self-test survives.
 */
export function platformProblem(platform: string, arch: string): string | undefined {
	if (platform === "linux" && ARCHITECTURES.includes(arch)) return undefined;
	return `wanted Linux on ${ARCHITECTURES.join(" or ")}, got ${platform} on ${arch}`;
}

import { closeSync, openSync } from "node:fs";

/** What starting a program takes for a moment: two for each of its streams, two to hear how it went. */
const DESCRIPTORS_TO_START = 8;

/**
 * To be called before a program is started.
 *
 * Node, when it runs out of descriptors half-way through starting a program, keeps three of them for
 * ever. So it must not come to that.
 *
 * @throws the system's error (EMFILE) where too few are left.
 */
export function requireDescriptors(): void {
	const probes: number[] = [];
	try {
		while (probes.length < DESCRIPTORS_TO_START) probes.push(openSync("/dev/null", "r"));
	} finally {
		for (const probe of probes) closeSync(probe);
	}
}

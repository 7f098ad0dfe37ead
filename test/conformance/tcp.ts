import { describe } from "vitest";

import { describeDialing } from "./tcp-dialing.ts";
import { describeFaults } from "./tcp-faults.ts";
import type { CreateEngine } from "./tcp-lab.ts";
import { describeLeaks } from "./tcp-leaks.ts";
import { describeListening } from "./tcp-listening.ts";
import { describeRandomCuts } from "./tcp-random-cuts.ts";
import { describeRelaying } from "./tcp-relaying.ts";

/** How TCP has to behave, whatever the engine. Real sockets on loopback, real time. */
export function describeTcpConformance(name: string, createEngine: CreateEngine): void {
	describe(`${name}: relaying`, () => describeRelaying(createEngine));
	describe(`${name}: faults`, () => describeFaults(createEngine));
	describe(`${name}: leaks`, () => describeLeaks(createEngine));
	describe(`${name}: 10,000 connections, half of them cut at random`, () =>
		describeRandomCuts(createEngine));
	describe(`${name}: dialing`, () => describeDialing(createEngine));
	describe(`${name}: listening`, () => describeListening(createEngine));
}

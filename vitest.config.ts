import { defineConfig } from "vitest/config";
import { LongestFirst } from "./test/kit/longest-first.ts";

/** What decides and holds nothing of the process. The other rooms' tests open sockets and count descriptors. */
const PURE = [
	"test/unit/*.test.ts",
	"test/unit/{balancing,config,daemon,rules,scripts,services,shared}/**/*.test.ts",
];

/** A wait that long has failed; its default, a second, is what a busy machine may take. */
const PATIENT = { poll: { timeout: 10_000 } };

const unit = {
	testTimeout: 20_000,
	expect: PATIENT,
	// Its default leaves one processor to the reporter, which hardly needs any.
	maxWorkers: "100%",
	sequence: { groupOrder: 1 },
};

export default defineConfig({
	test: {
		globalSetup: ["test/kit/host-settings.ts"],
		sequence: { sequencer: LongestFirst },
		projects: [
			{
				test: {
					...unit,
					name: "unit",
					include: PURE,
					// One process for all of them: most take less time than to start one and load what they test.
					isolate: false,
					setupFiles: ["test/kit/leaves-nothing.ts"],
					restoreMocks: true,
					unstubEnvs: true,
					unstubGlobals: true,
				},
			},
			{
				test: {
					...unit,
					name: "unit-isolated",
					include: ["test/unit/**/*.test.ts"],
					exclude: PURE,
				},
			},
			{
				test: {
					name: "integration",
					include: ["test/integration/**/*.test.ts"],
					setupFiles: ["test/kit/close-spare-labs.ts"],
					expect: PATIENT,
					// A real kernel, real processes: generous, since a timeout here means "hung".
					testTimeout: 120_000,
					hookTimeout: 120_000,
					pool: "forks",
					// After the unit tests, which would take the processor from what is timed by a real clock.
					sequence: { groupOrder: 2 },
					// One more than the usual two processors: each waits for a third of its time.
					maxWorkers: 3,
				},
			},
		],
	},
});

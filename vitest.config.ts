import { defineConfig } from "vitest/config";

export default defineConfig({
	test: {
		globalSetup: ["test/kit/host-settings.ts"],
		projects: [
			{
				test: {
					name: "unit",
					include: ["test/unit/**/*.test.ts"],
					testTimeout: 20_000,
					// Its default leaves one processor to the reporter, which hardly needs any.
					maxWorkers: "100%",
					sequence: { groupOrder: 1 },
				},
			},
			{
				test: {
					name: "integration",
					include: ["test/integration/**/*.test.ts"],
					setupFiles: ["test/kit/close-spare-labs.ts"],
					// A real kernel, real processes: generous, since a timeout here means "hung".
					testTimeout: 60_000,
					hookTimeout: 60_000,
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

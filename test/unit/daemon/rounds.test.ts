import { afterEach, beforeEach, describe, expect, test as it, vi } from "vitest";
import type { NodeWatch } from "../../../src/daemon/node-watch.ts";
import { Rounds } from "../../../src/daemon/rounds.ts";
import { NO_CLUSTER_IPS } from "../../../src/services/cluster-ips.ts";
import type { ServicePortPlan } from "../../../src/services/plan-service-ports.ts";

class World {
	readonly calls: string[] = [];
	isChanged = false;
	isNew = false;
	plan: ServicePortPlan | undefined;
	readonly rounds: Rounds;

	constructor(rulesPeriodMs: number) {
		const node: Pick<NodeWatch, "refresh" | "askPortsAgain" | "hasNewLinks" | "hasSuspects"> = {
			refresh: () => {
				this.calls.push("look");
				return this.isChanged;
			},
			askPortsAgain: () => void this.calls.push("ask ports"),
			hasNewLinks: () => this.isNew,
			hasSuspects: () => false,
		};
		this.rounds = new Rounds({
			// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- all that rounds ask of it
			node: node as NodeWatch,
			sync: {
				request: () => void this.calls.push("sync"),
				requestVerify: () => void this.calls.push("verify"),
			},
			plan: () => this.plan,
			rulesPeriodMs,
		});
	}
}

describe("Rounds", () => {
	beforeEach(() => void vi.useFakeTimers());
	afterEach(() => void vi.useRealTimers());

	it("has the rules looked at each period, ten seconds at most, until it is stopped (case 28f)", () => {
		const { calls, rounds } = new World(30_000);
		vi.advanceTimersByTime(10_000);
		expect(calls).toEqual(["look", "verify"]);
		rounds.stop();
		vi.advanceTimersByTime(60_000);
		expect(calls).toHaveLength(2);
		const often = new World(3_000);
		vi.advanceTimersByTime(9_000);
		expect(often.calls.filter((call) => call === "verify")).toHaveLength(3);
		often.rounds.stop();
	});

	it("has the model made anew where the node changed, or a port may be free", () => {
		const world = new World(10_000);
		world.isChanged = true;
		vi.advanceTimersByTime(10_000);
		expect(world.calls).toEqual(["look", "sync", "verify"]);
		world.isChanged = false;
		const waiting = { name: "shop/a:http", reason: "port-taken", detail: "" } as const;
		world.plan = {
			servicePorts: [],
			unserved: [waiting],
			healthChecks: [],
			clusterIps: NO_CLUSTER_IPS,
		};
		world.calls.length = 0;
		vi.advanceTimersByTime(10_000);
		expect(world.calls).toEqual(["ask ports", "look", "sync", "verify"]);
		world.rounds.stop();
	});

	it("looks within a second where an interface came", () => {
		const world = new World(10_000);
		world.isNew = true;
		world.isChanged = true;
		vi.advanceTimersByTime(1_000);
		expect(world.calls).toEqual(["look", "sync"]);
		world.rounds.stop();
	});
});

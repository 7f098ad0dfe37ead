import { describe, expect, test as it } from "vitest";
import { createBalancer } from "../../../src/balancing/balancer.ts";
import type { Balancer } from "../../../src/balancing/pick.ts";
import { SharedAffinity } from "../../../src/balancing/shared-affinity.ts";
import {
	aClient,
	anEndpoint,
	BY_CLIENT,
	connectNumber,
	endpoints,
	NO_AFFINITY,
	pickNumber,
} from "./builders.ts";

/** The balancers of one port's two pools, over these endpoints, and their clock. */
function aPair(cluster: readonly number[], local: readonly number[]) {
	const clock = { nowMs: 0 };
	const options = { now: () => clock.nowMs, random: () => 0 };
	const all = createBalancer(options);
	const here = createBalancer({ ...options, sibling: all });
	const update = (affinity = BY_CLIENT) => {
		all.update(endpoints(...cluster), affinity);
		here.update(endpoints(...local), affinity);
	};
	update();
	return { all, here, clock, update };
}

describe("session affinity of two balancers of one port", () => {
	it("keeps a client with its endpoint, by whichever of the two it comes", () => {
		const { all, here } = aPair([1, 2, 3], [2, 3]);
		// The turn of the second is at 2.
		expect(connectNumber(here, 1)).toBe(2);
		expect(connectNumber(here, 2)).toBe(3);
		expect([connectNumber(all, 1), connectNumber(all, 2)]).toEqual([2, 3]);
		expect(connectNumber(all, 3)).toBe(1);
		expect(connectNumber(all, 4)).toBe(2);
		expect(connectNumber(here, 4)).toBe(2);
	});

	it("gives a client another endpoint where its own is not in the pool, and keeps it to that", () => {
		const { all, here } = aPair([1, 2, 3], [2, 3]);
		expect(connectNumber(all, 1)).toBe(1);
		const moved = connectNumber(here, 1);
		expect([2, 3]).toContain(moved);
		expect(connectNumber(all, 1)).toBe(moved);
	});

	it("says moved in the pool in which the client's endpoint is not", () => {
		const { all, here } = aPair([1, 2], [2]);
		connectNumber(all, 1);
		const picked = here.pick({ clientAddress: aClient(1), tried: new Set() });
		expect(picked).toEqual({ endpoint: anEndpoint(2), affinity: "moved" });
	});

	it("is one table: counted the same in both, with one timeout", () => {
		const { all, here, clock, update } = aPair([1, 2], [1, 2]);
		connectNumber(all, 1);
		connectNumber(here, 2);
		for (const balancer of [all, here]) expect(balancer.stats().affinityClients).toBe(2);
		update({ type: "ClientIP", timeoutMs: 1_000 });
		clock.nowMs = 900;
		expect(connectNumber(here, 1)).toBe(1);
		clock.nowMs = 1_800;
		// Seen 900 ms ago, if only by the other pool.
		expect(connectNumber(all, 1)).toBe(1);
	});

	it("is switched off and on for both, and forgets meanwhile", () => {
		const { all, here, update } = aPair([1, 2], [1, 2]);
		connectNumber(all, 1);
		update(NO_AFFINITY);
		for (const balancer of [all, here]) expect(balancer.stats().affinityClients).toBe(0);
		expect(new Set([pickNumber(here, 1), pickNumber(here, 1)])).toEqual(new Set([1, 2]));
		update();
		expect(here.stats().affinityClients).toBe(0);
	});

	it("does not lose what it knows when the second is told the same as the first", () => {
		const { all, here, update } = aPair([1, 2], [1, 2]);
		connectNumber(all, 1);
		update();
		update();
		expect(here.stats().affinityClients).toBe(1);
	});

	it("leaves rotation and failures to each", () => {
		const { all, here, update } = aPair([1, 2], [1, 2]);
		update(NO_AFFINITY);
		all.failed(anEndpoint(1), "refused");
		expect(all.failing()).toEqual([anEndpoint(1).key]);
		expect(here.failing()).toEqual([]);
		const turns = (balancer: Balancer) => [pickNumber(balancer), pickNumber(balancer)];
		expect(turns(all)).toEqual([2, 2]);
		expect(turns(here)).toEqual([1, 2]);
	});
});

describe("SharedAffinity", () => {
	it("counts clients that were forgotten over all tables that it had", () => {
		let told = 0;
		const affinity = new SharedAffinity({
			now: () => 0,
			maxClients: 1,
			onEviction: () => {
				told += 1;
			},
		});
		for (let round = 0; round < 2; round += 1) {
			affinity.update(BY_CLIENT);
			affinity.table?.set(aClient(1), "a", "kept");
			affinity.table?.set(aClient(2), "a", "kept");
			affinity.update(NO_AFFINITY);
			expect(affinity.table).toBeUndefined();
		}
		expect(affinity.evictions).toBe(2);
		expect(told).toBe(2);
	});
});

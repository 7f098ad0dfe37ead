import fc from "fast-check";
import { describe, expect, test as it } from "vitest";

import { type FlowGroup, FlowTable } from "../../../../src/proxies/udp/udp-flow-table.ts";

interface Flow {
	readonly key: string;
	readonly group: number;
	lastActiveMs: number;
}

/** A table with groups; evicted flows are listed. */
function aTable(maxFlows: number, groupCount = 3) {
	const evicted: Flow[] = [];
	const groups: FlowGroup<Flow>[] = [];
	const table = new FlowTable<Flow>(maxFlows, (flow) => {
		evicted.push(flow);
		groups[flow.group]?.remove(flow);
	});
	for (let count = 0; count < groupCount; count += 1) groups.push(table.createGroup());
	const clock = { nowMs: 0 };
	return {
		table,
		evicted,
		clock,
		groups,
		add: (group: number, key: string) => {
			clock.nowMs += 1;
			const flow = { key, group, lastActiveMs: clock.nowMs };
			groups[group]?.add(flow);
			return flow;
		},
		touch: (group: number, key: string) => {
			clock.nowMs += 1;
			const flow = groups[group]?.touch(key);
			if (flow !== undefined) flow.lastActiveMs = clock.nowMs;
		},
	};
}

const keysOf = (flows: Iterable<Flow>) => [...flows].map(({ key }) => key);
const setOf = (flows: Iterable<Flow>) => new Set(keysOf(flows));

describe("FlowTable", () => {
	it("evicts the least recently used flow of the biggest group (case 14b)", () => {
		const { table, evicted, add, touch } = aTable(4);
		add(0, "quiet");
		for (const key of ["b1", "b2", "b3"]) add(1, key);
		touch(1, "b1");
		add(2, "new");
		expect(keysOf(evicted)).toEqual(["b2"]);
		expect(setOf(table.flows())).toEqual(new Set(["b1", "b3", "new", "quiet"]));
	});

	it("keeps a flood in one group from the flows of the others", () => {
		const { groups, add } = aTable(10);
		for (const key of ["a", "b", "c"]) add(0, key);
		for (let count = 0; count < 1_000; count += 1) add(1, `flood ${count}`);
		expect(groups.map(({ size }) => size)).toEqual([3, 7, 0]);
	});

	it("spares one flow on request", () => {
		const { table, evicted, add } = aTable(4);
		const only = add(0, "only");
		expect(table.evictOne(only)).toBe(false);
		add(1, "other");
		expect([table.evictOne(only), keysOf(evicted)]).toEqual([true, ["other"]]);
	});

	it("idleFor() answers the flows at or over the limit, and no other", () => {
		const { table, clock, add, touch } = aTable(4);
		add(0, "old");
		add(1, "older, touched");
		touch(1, "older, touched");
		add(0, "new");
		clock.nowMs = 103;
		expect(setOf(table.idleFor(100, clock.nowMs))).toEqual(new Set(["old", "older, touched"]));
		expect(keysOf(table.idleFor(101, clock.nowMs))).toEqual(["old"]);
		expect(keysOf(table.idleFor(103, clock.nowMs))).toEqual([]);
	});

	it("refuses a second flow of the same key, which would never be closed", () => {
		const { add, table } = aTable(4);
		add(0, "a");
		expect(() => add(0, "a")).toThrow(RangeError);
		add(1, "a");
		expect(table.size).toBe(2);
	});

	it("remove() leaves another flow of the same key alone", () => {
		const { groups, add } = aTable(4);
		add(0, "a");
		groups[0]?.remove({ key: "a", group: 0, lastActiveMs: 0 });
		expect(groups[0]?.size).toBe(1);
	});

	it("refuses a table without room", () => {
		expect(() => new FlowTable(0, () => {})).toThrow(RangeError);
	});

	it("agrees with a plain model after any sequence of adding, touching and removing", () => {
		const step = fc.record({
			group: fc.integer({ min: 0, max: 2 }),
			key: fc.constantFrom("a", "b", "c", "d"),
			action: fc.constantFrom("use", "use", "remove"),
		});
		fc.assert(
			fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
				const world = new World();
				for (const { group, key, action } of steps) {
					if (action === "use") world.use(group, key);
					else world.remove(group, key);
				}
				expect(world.faults).toEqual([]);
			}),
			{ numRuns: 300 },
		);
	});
});

const MAX_FLOWS = 5;

/** A table and what it should hold: per group the keys, least recently used first. */
class World {
	readonly faults: string[] = [];
	readonly #lab = aTable(MAX_FLOWS);
	readonly #model: string[][] = [[], [], []];

	use(group: number, key: string): void {
		if (this.#keys(group).includes(key)) {
			this.#lab.touch(group, key);
			this.#forget(group, key);
		} else {
			const biggest = Math.max(...this.#model.map(({ length }) => length));
			const isFull = this.#model.flat().length === MAX_FLOWS;
			this.#lab.add(group, key);
			this.#takeEvicted(isFull ? 1 : 0, biggest);
		}
		this.#keys(group).push(key);
		this.#compare();
	}

	remove(group: number, key: string): void {
		const flows = this.#lab.groups[group];
		const flow = Array.from(flows?.flows() ?? []).find((each) => each.key === key);
		if (flow !== undefined) flows?.remove(flow);
		this.#forget(group, key);
		this.#compare();
	}

	#takeEvicted(count: number, biggest: number): void {
		const evicted = this.#lab.evicted.splice(0);
		if (evicted.length !== count) this.faults.push(`evicted ${evicted.length}, not ${count}`);
		for (const { group, key } of evicted) {
			if (this.#keys(group).length < biggest) this.faults.push(`group ${group} is not the biggest`);
			if (this.#keys(group)[0] !== key) this.faults.push(`${key} is not the oldest`);
			this.#forget(group, key);
		}
	}

	#forget(group: number, key: string): void {
		this.#model[group] = this.#keys(group).filter((each) => each !== key);
	}

	#keys(group: number): string[] {
		return this.#model[group] ?? [];
	}

	#compare(): void {
		const { groups, table } = this.#lab;
		const found = JSON.stringify(groups.map((each) => keysOf(each.flows())));
		if (found !== JSON.stringify(this.#model)) this.faults.push(`${found} is not as it should be`);
		if (table.size !== this.#model.flat().length) this.faults.push(`size ${table.size}`);
		if (table.size > MAX_FLOWS) this.faults.push(`${table.size} flows are too many`);
	}
}

import fc from "fast-check";
import { describe, expect, test as it } from "vitest";
import { createBalancer } from "../../../src/balancing/balancer.ts";
import type { Pick } from "../../../src/balancing/pick.ts";
import type { DialOutcome } from "../../../src/services/connection-record.ts";
import type { Endpoint } from "../../../src/services/service-port.ts";
import { aClient, BY_CLIENT, endpoints, NO_AFFINITY } from "./builders.ts";

const numbers = fc.uniqueArray(fc.integer({ min: 1, max: 6 }), { maxLength: 6 });
const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
const outcome = fc.constantFrom<DialOutcome>("refused", "timeout", "local-error", "abandoned");
const step = fc.oneof(
	fc.tuple(numbers, fc.boolean()).map(([list, sticky]) => (world: World) => {
		world.update(endpoints(...list), sticky);
	}),
	fc
		.tuple(fc.integer({ min: 1, max: 3 }), fc.array(outcome, { maxLength: 8 }))
		.map(([client, failures]) => (world: World) => {
			world.connect(client, failures);
		}),
	fc.integer({ min: 1, max: 20_000 }).map((waitMs) => (world: World) => {
		world.nowMs += waitMs;
	}),
);

/** Drives a balancer and notes every answer that is wrong. */
class World {
	nowMs = 0;
	readonly faults: string[] = [];
	readonly #balancer;
	#keys = new Set<string>();
	/** Which endpoint last answered each client since affinity was switched on. */
	readonly #answers = new Map<number, string>();

	constructor(start: number) {
		this.#balancer = createBalancer({ now: () => this.nowMs, random: () => start });
	}

	update(list: readonly Endpoint[], sticky: boolean): void {
		this.#keys = new Set(list.map((endpoint) => endpoint.key));
		if (!sticky) this.#answers.clear();
		this.#balancer.update(list, sticky ? BY_CLIENT : NO_AFFINITY);
	}

	/** Every try but the last fails. */
	connect(client: number, failures: readonly DialOutcome[]): void {
		const tried = new Set<string>();
		for (const failure of failures) {
			const picked = this.pick(client, tried);
			if (picked === undefined) return;
			tried.add(picked.endpoint.key);
			this.#balancer.failed(picked.endpoint, failure);
		}
		const picked = this.pick(client, tried);
		if (picked === undefined) return;
		this.#balancer.answered(picked.endpoint, aClient(client));
		this.#answers.set(client, picked.endpoint.key);
	}

	pick(client: number, tried: ReadonlySet<string>): Pick | undefined {
		const picked = this.#balancer.pick({ clientAddress: aClient(client), tried });
		if (picked === undefined) {
			if (this.#keys.size > 0) this.faults.push("none given");
			return undefined;
		}
		const { key } = picked.endpoint;
		if (!this.#keys.has(key)) this.faults.push(`${key} is not in the list`);
		if (tried.has(key) && tried.size < this.#keys.size) this.faults.push(`${key} given again`);
		if (picked.affinity === "kept" && this.#answers.get(client) !== key) {
			this.faults.push(`${key} kept for a client that it did not answer last`);
		}
		return picked;
	}
}

describe("createBalancer() whatever happens", () => {
	it("gives an endpoint of the list, none twice while another is untried, and calls kept only what answered", () => {
		fc.assert(
			fc.property(random, fc.array(step, { maxLength: 40 }), (start, steps) => {
				const world = new World(start);
				for (const act of steps) act(world);
				expect(world.faults).toEqual([]);
			}),
			{ numRuns: 500 },
		);
	});

	it("is exactly fair between changes when nothing fails", () => {
		const rounds = fc.array(fc.tuple(numbers, fc.integer({ min: 0, max: 30 })), { maxLength: 10 });
		fc.assert(
			fc.property(rounds, random, (changes, start) => {
				const world = new World(start);
				for (const [list, picks] of changes) {
					world.update(endpoints(...list), false);
					const keys = Array.from({ length: picks }, () => world.pick(1, new Set())?.endpoint.key);
					const counts = endpoints(...list).map(
						({ key }) => keys.filter((picked) => picked === key).length,
					);
					expect(
						Math.max(0, ...counts) - Math.min(...counts, Math.max(0, ...counts)),
					).toBeLessThanOrEqual(1);
				}
			}),
		);
	});
});

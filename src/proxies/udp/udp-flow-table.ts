import { LRUCache } from "lru-cache";

/** What the table needs to know of a flow. */
export interface TableFlow {
	/** Unique in its group. */
	readonly key: string;
	/** Monotonic milliseconds; rises whenever the flow is touched, and at no other time. */
	readonly lastActiveMs: number;
}

/**
 * All UDP flows of one engine, in one group per listener.
 *
 * Bounded over all groups: when the table is full, the least recently used flow of the group with
 * the most flows has to go. So whoever floods one Service, with whatever sources, presses out that
 * Service's flows and nobody else's, until it has no more than the next biggest.
 *
 * Closes nothing itself: `onEvict` does, and has to remove the flow before it returns.
 */
export class FlowTable<F extends TableFlow> {
	readonly maxFlows: number;
	readonly #onEvict: (flow: F) => void;
	/** Groups with at least one flow, by how many they have. */
	readonly #groupsBySize = new Map<number, Set<FlowGroup<F>>>();
	#biggest = 0;
	#size = 0;

	constructor(maxFlows: number, onEvict: (flow: F) => void) {
		if (!Number.isInteger(maxFlows) || maxFlows < 1) {
			throw new RangeError(`Cannot keep a table of ${maxFlows} flows`);
		}
		this.maxFlows = maxFlows;
		this.#onEvict = onEvict;
	}

	get size(): number {
		return this.#size;
	}

	/** A group costs next to nothing while it is empty, and need not be given back. */
	createGroup(): FlowGroup<F> {
		return new FlowGroup<F>({
			maxFlows: this.maxFlows,
			makeRoom: () => this.makeRoom(),
			onResize: (group, before) => this.#resized(group, before),
		});
	}

	/** Evicts as many flows as it takes for one more to fit. */
	makeRoom(): void {
		while (this.#size >= this.maxFlows && this.evictOne()) {
			// evictOne() has done it.
		}
	}

	/**
	 * Evicts the least recently used flow of the biggest group.
	 *
	 * @param spared stays in any case; the next best goes.
	 * @returns false when there was none.
	 */
	evictOne(spared?: F): boolean {
		for (let size = this.#biggest; size > 0; size -= 1) {
			for (const group of this.#groupsBySize.get(size) ?? []) {
				const oldest = group.oldest();
				if (oldest === undefined || oldest === spared) continue;
				this.#onEvict(oldest);
				return true;
			}
		}
		return false;
	}

	/** The flows that were not active for at least `idleMs`, at `nowMs`. */
	idleFor(idleMs: number, nowMs: number): F[] {
		const idle: F[] = [];
		for (const groups of this.#groupsBySize.values()) {
			for (const group of groups) {
				// Oldest first, so the first one that is not idle ends the search in its group.
				for (const flow of group.flows()) {
					if (nowMs - flow.lastActiveMs < idleMs) break;
					idle.push(flow);
				}
			}
		}
		return idle;
	}

	/** All flows, in no particular order. */
	flows(): F[] {
		return this.idleFor(Number.NEGATIVE_INFINITY, 0);
	}

	#resized(group: FlowGroup<F>, before: number): void {
		const { size } = group;
		this.#size += size - before;
		const former = this.#groupsBySize.get(before);
		former?.delete(group);
		if (former?.size === 0) this.#groupsBySize.delete(before);
		if (size > 0) this.#groupsOfSize(size).add(group);
		// Sizes change by one: when the only biggest group shrinks, it is the biggest still.
		if (size > this.#biggest || (before === this.#biggest && !this.#groupsBySize.has(before))) {
			this.#biggest = size;
		}
	}

	#groupsOfSize(size: number): Set<FlowGroup<F>> {
		let groups = this.#groupsBySize.get(size);
		if (groups === undefined) {
			groups = new Set();
			this.#groupsBySize.set(size, groups);
		}
		return groups;
	}
}

/** What a group needs of its table. */
interface GroupTable<F extends TableFlow> {
	readonly maxFlows: number;
	makeRoom(): void;
	onResize(group: FlowGroup<F>, before: number): void;
}

/** The flows of one listener, least recently used first. Made by {@link FlowTable.createGroup}. */
export class FlowGroup<F extends TableFlow> {
	readonly #table: GroupTable<F>;
	/** Only while there are flows: after a flood its arrays are big. */
	#cache: LRUCache<string, F> | undefined;

	constructor(table: GroupTable<F>) {
		this.#table = table;
	}

	get size(): number {
		return this.#cache?.size ?? 0;
	}

	/** The flow, which is the most recently used from now on. */
	touch(key: string): F | undefined {
		return this.#cache?.get(key);
	}

	/**
	 * Adds a flow, evicting others where the table is full.
	 *
	 * @throws {RangeError} if there is a flow of that key, which would never be closed.
	 */
	add(flow: F): void {
		this.#table.makeRoom();
		const before = this.size;
		this.#cache ??= new LRUCache({
			// Not `max`, which would allocate room for all of them in every group at once.
			maxSize: this.#table.maxFlows,
			sizeCalculation: () => 1,
		});
		if (this.#cache.has(flow.key)) throw new RangeError(`Cannot add flow ${flow.key} twice`);
		this.#cache.set(flow.key, flow);
		this.#table.onResize(this, before);
	}

	/** Does nothing when `flow` is not there. */
	remove(flow: F): void {
		const before = this.size;
		if (this.#cache?.peek(flow.key) !== flow) return;
		this.#cache.delete(flow.key);
		if (this.#cache.size === 0) this.#cache = undefined;
		this.#table.onResize(this, before);
	}

	oldest(): F | undefined {
		return this.flows().next().value;
	}

	/** Least recently used first. No flow is to be added or removed during the iteration. */
	flows(): Iterator<F, undefined> & Iterable<F> {
		return liveValues(this.#cache);
	}
}

function* liveValues<F extends TableFlow>(
	cache: LRUCache<string, F> | undefined,
): Generator<F, undefined> {
	if (cache === undefined) return;
	for (const flow of cache.rvalues()) if (flow !== undefined) yield flow;
}

import { describe, expect, test as it } from "vitest";
import { MAX_TURN, placesOf, RoundRobin } from "../../../src/balancing/round-robin.ts";
import { SharedTurn } from "../../../src/proxies/syscall/shared-turn.ts";
import { anEndpoint, endpoints, times } from "./builders.ts";

const anyRank = () => 0;

function aRotation(random = 0, ...numbers: number[]) {
	const rotation = new RoundRobin(() => random);
	rotation.update(endpoints(...numbers));
	const next = (rank: (number: number) => number = anyRank) => {
		const endpoint = rotation.next((each) => rank(Number(each.address.split(".")[2])));
		return endpoint === undefined ? undefined : Number(endpoint.address.split(".")[2]);
	};
	return { rotation, next };
}

/** One that somebody else has too, from this place on. */
function aSharedTurn(first: number): SharedTurn {
	return new SharedTurn(new Int32Array(new SharedArrayBuffer(4)).fill(first), 0);
}

describe("RoundRobin", () => {
	it("has nothing to give without endpoints", () => {
		expect(aRotation().next()).toBeUndefined();
	});

	it("gives a single endpoint again and again", () => {
		const { next } = aRotation(0, 1);
		expect(times(4, next)).toEqual([1, 1, 1, 1]);
	});

	it("follows the order of the list and wraps", () => {
		const { next } = aRotation(0, 1, 2, 3);
		expect(times(7, next)).toEqual([1, 2, 3, 1, 2, 3, 1]);
	});

	it("spreads 1,000 picks over 3 endpoints 334, 333, 333", () => {
		const { next } = aRotation(0, 1, 2, 3);
		const counts = new Map<number | undefined, number>();
		for (const number of times(1000, next)) counts.set(number, (counts.get(number) ?? 0) + 1);
		expect([...counts.values()]).toEqual([334, 333, 333]);
	});

	it("starts where the random number says (classic 9.7.1)", () => {
		expect(aRotation(0.5, 1, 2, 3).next()).toBe(2);
		expect(aRotation(0.99, 1, 2, 3).next()).toBe(3);
	});

	it("keeps the turn when others come and go (classic 9.2.5)", () => {
		const { rotation, next } = aRotation(0, 1, 2, 3);
		expect(next()).toBe(1);
		rotation.update(endpoints(2, 3, 4));
		expect(times(3, next)).toEqual([2, 3, 4]);
	});

	it("gives the turn of one that went to the next that is left", () => {
		const { rotation, next } = aRotation(0, 1, 2, 3, 4);
		expect(next()).toBe(1);
		rotation.update(endpoints(1, 4));
		expect(times(3, next)).toEqual([4, 1, 4]);
	});

	it("goes on where the others are, when it joins a rotation", () => {
		const shared = aSharedTurn(7);
		const first = new RoundRobin(() => 0, shared);
		first.update(endpoints(1, 2, 3));
		const taken = () => first.next(anyRank)?.key;
		expect([taken(), taken()]).toEqual(endpoints(2, 3).map(({ key }) => key));
		const late = new RoundRobin(() => 0.9, shared);
		late.update(endpoints(1, 2, 3));
		expect(late.next(anyRank)).toEqual(anEndpoint(1));
		expect(first.next(anyRank)).toEqual(anEndpoint(2));
	});

	it("that is shared is anywhere again when others take the place of all", () => {
		const shared = aSharedTurn(7);
		const rotation = new RoundRobin(() => 0, shared);
		rotation.update(endpoints(1));
		rotation.next(anyRank);
		rotation.update(endpoints(2, 3, 4));
		// 8 of 3: were the place kept and not the turn, it would be the first on every node.
		expect(rotation.next(anyRank)).toEqual(anEndpoint(4));
	});

	it("that is shared keeps its place when the list changes, whoever comes to the change first", () => {
		for (let first = 0; first < 12; first += 1) {
			const shared = aSharedTurn(first);
			const [early, late] = [new RoundRobin(() => 0, shared), new RoundRobin(() => 0, shared)];
			const lists = { before: endpoints(1, 2, 3, 4), after: endpoints(2, 3, 4, 5, 6) };
			for (const rotation of [early, late]) rotation.update(lists.before);
			const next = first % 4 === 0 ? 2 : (first % 4) + 1;
			shared.keepPlace(lists.before, placesOf(lists.after));
			early.update(lists.after);
			expect(early.next(anyRank)).toEqual(anEndpoint(next));
			late.update(lists.after);
			expect(late.next(anyRank)).toEqual(anEndpoint(next === 6 ? 2 : next + 1));
		}
	});

	it("goes round far beyond any list", () => {
		const shared = aSharedTurn(MAX_TURN - 2);
		const rotation = new RoundRobin(() => 0, shared);
		rotation.update(endpoints(1, 2, 3));
		const taken = times(6, () => Number(rotation.next(anyRank)?.address.split(".")[2]));
		// 2 ** 30 - 2 is 2 modulo 3.
		expect(taken).toEqual([3, 1, 2, 3, 1, 2]);
		expect(shared.get()).toBeLessThan(MAX_TURN);
	});

	it("takes the lowest rank and, among equals, the one whose turn it is", () => {
		const { next } = aRotation(0, 1, 2, 3);
		const second = (number: number) => (number === 2 ? 1 : 0);
		expect(times(4, () => next(second))).toEqual([1, 3, 1, 3]);
		const allButThird = (number: number) => (number === 3 ? 1 : 2);
		expect(next(allButThird)).toBe(3);
		expect(next(() => 5)).toBe(1);
	});

	it("gives back an endpoint as it is in the newest list", () => {
		const { rotation } = aRotation(0, 1);
		const renamed = { ...anEndpoint(1), podName: "cart-1" };
		rotation.update([renamed]);
		expect(rotation.get(renamed.key)?.podName).toBe("cart-1");
		expect(rotation.get(anEndpoint(2).key)).toBeUndefined();
	});
});

import { describe, expect, test as it } from "vitest";
import { DescriptorBudget } from "../../../src/proxies/descriptor-budget.ts";
import { type Applicant, TcpAdmission } from "../../../src/proxies/tcp-admission.ts";

/** An admission with room for `connections`, in which `waiting` may wait. */
function anAdmission({
	connections = 2,
	waiting = 2,
	dialing = 100,
	budget = new DescriptorBudget(connections * 2),
	waitingRoom = new DescriptorBudget(waiting),
} = {}) {
	const clock = { nowMs: 0 };
	const events: string[] = [];
	const admission = new TcpAdmission({
		budget,
		waitingRoom,
		maxDialing: dialing,
		now: () => clock.nowMs,
		onPaused: () => events.push("paused"),
		onRoom: () => events.push("room"),
	});
	/** @param onStart what it does as soon as it is let in. */
	const apply = (name: string, onStart: (self: Applicant) => void = () => {}) => {
		const applicant: Applicant = {
			isAdmitted: false,
			start: () => {
				events.push(`start ${name}`);
				onStart(applicant);
			},
			refuse: () => {
				events.push(`refuse ${name}`);
				admission.left(applicant);
			},
		};
		admission.apply(applicant);
		return applicant;
	};
	return { admission, apply, budget, clock, events };
}

describe("TcpAdmission", () => {
	it("starts while there is room, lets wait in order, and refuses beyond that", () => {
		const { admission, apply, events } = anAdmission();
		for (const name of ["a", "b", "c", "d", "e"]) apply(name);
		expect(events).toEqual(["start a", "start b", "paused", "refuse e"]);
		expect(admission.isPaused).toBe(true);
	});

	it("starts the one that has waited longest when another one leaves", () => {
		const { admission, apply, events } = anAdmission();
		const [a] = ["a", "b", "c", "d"].map((name) => apply(name));
		events.length = 0;
		if (a !== undefined) admission.left(a);
		expect(events).toEqual(["start c"]);
	});

	it("lets nobody overtake those who wait", () => {
		const { admission, apply, budget, events } = anAdmission({ connections: 1 });
		apply("a");
		apply("b");
		budget.give(2);
		apply("c");
		expect(events).toEqual(["start a", "paused", "start b"]);
		budget.give(2);
		admission.sweep();
		expect(events).toEqual(["start a", "paused", "start b", "start c"]);
	});

	it("forgets one that goes while it waits, and gives nothing back for it", () => {
		const { admission, apply, budget } = anAdmission({ connections: 1 });
		apply("a");
		const b = apply("b");
		admission.left(b);
		admission.left(b);
		expect(admission.isPaused).toBe(false);
		expect(budget.used).toBe(2);
	});

	it("refuses those who have waited ten seconds", () => {
		const { admission, apply, clock, events } = anAdmission({ connections: 1 });
		apply("a");
		apply("b");
		clock.nowMs = 5000;
		apply("c");
		clock.nowMs = 9999;
		admission.sweep();
		expect(events).not.toContain("refuse b");
		clock.nowMs = 10_000;
		admission.sweep();
		expect(events).toContain("refuse b");
		expect(events).not.toContain("refuse c");
	});

	it("says that it pauses each time that somebody has to wait and nobody did", () => {
		const { admission, apply, events } = anAdmission({ connections: 1 });
		const a = apply("a");
		apply("b");
		apply("c");
		admission.left(a);
		expect(events.filter((event) => event === "paused")).toHaveLength(1);
	});

	it("refuses when too many dial, whatever the descriptors", () => {
		const { admission, apply, budget, events } = anAdmission({ connections: 9, dialing: 1 });
		apply("a");
		apply("b");
		expect(events).toEqual(["start a", "refuse b"]);
		expect(budget.used).toBe(2);
		admission.dialed();
		apply("c");
		expect(events).toEqual(["start a", "refuse b", "start c"]);
	});

	it("lets in any number that end as soon as they start, without nesting", () => {
		const { admission, apply, budget, events } = anAdmission({ connections: 1, waiting: 20_000 });
		const a = apply("a");
		for (let index = 0; index < 20_000; index += 1) {
			apply("next", (self) => {
				admission.dialed();
				admission.left(self);
			});
		}
		admission.left(a);
		expect(events.filter((event) => event === "start next")).toHaveLength(20_000);
		expect(budget.used).toBe(0);
	});
});

describe("TcpAdmission of two threads that share what there is", () => {
	/** Room for one connection, which the first of the two has; one of each waits. */
	function twoAdmissions() {
		const budget = new DescriptorBudget(2);
		const waitingRoom = new DescriptorBudget(10);
		const [here, there] = [
			anAdmission({ budget, waitingRoom }),
			anAdmission({ budget, waitingRoom }),
		];
		const relayed = here.apply("a");
		const [waitsHere, waitsThere] = [here.apply("b"), there.apply("c")];
		for (const { events } of [here, there]) events.length = 0;
		return { here, there, budget, relayed, waitsHere, waitsThere };
	}

	it("leaves it to others who is next when others wait", () => {
		const { here, there, budget, relayed } = twoAdmissions();
		here.admission.left(relayed);
		expect([here.events, there.events, budget.used]).toEqual([["room"], [], 0]);
		there.admission.letInOne();
		expect([here.events, there.events, budget.used]).toEqual([["room"], ["start c"], 2]);
	});

	it("lets in one alone where it is told to", () => {
		const { here, relayed } = twoAdmissions();
		here.apply("d");
		here.admission.left(relayed);
		here.admission.letInOne();
		expect(here.events).toEqual(["room", "start b"]);
	});

	it("passes room on where nobody waits any more, as long as somebody does elsewhere", () => {
		const { here, there, relayed, waitsHere, waitsThere } = twoAdmissions();
		here.admission.left(relayed);
		there.admission.left(waitsThere);
		there.admission.letInOne();
		expect(there.events).toEqual(["room"]);
		here.admission.left(waitsHere);
		there.admission.letInOne();
		expect([here.events, there.events]).toEqual([["room"], ["room"]]);
	});

	it("lets nobody overtake those who wait in the other one", () => {
		const { here, there, budget, relayed } = twoAdmissions();
		here.admission.left(relayed);
		there.apply("late");
		expect(there.events).toEqual(["room"]);
		expect(budget.used).toBe(0);
		there.admission.sweep();
		expect(there.events).toEqual(["room", "start c"]);
	});

	it("misses no room that is given back while somebody begins to wait", () => {
		const budget = new DescriptorBudget(2);
		const waitingRoom = new DescriptorBudget(10);
		const here = anAdmission({ budget, waitingRoom });
		budget.take(2);
		// The other thread sees nobody wait at this moment.
		const takes = waitingRoom.tryTake.bind(waitingRoom);
		waitingRoom.tryTake = (count) => {
			budget.give(2);
			return takes(count);
		};
		here.apply("a");
		expect(here.events).toEqual(["paused", "start a"]);
	});
});

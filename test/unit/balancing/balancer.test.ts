import { describe, expect, test as it } from "vitest";
import { createBalancer } from "../../../src/balancing/balancer.ts";
import type { DialOutcome } from "../../../src/services/connection-record.ts";
import {
	aBalancer,
	aClient,
	anEndpoint,
	BY_CLIENT,
	connectNumber,
	endpoints,
	NO_AFFINITY,
	pickNumber,
	times,
} from "./builders.ts";

function affinityOf(balancer: ReturnType<typeof aBalancer>["balancer"], client = 1) {
	return balancer.pick({ clientAddress: aClient(client), tried: new Set() })?.affinity;
}

describe("createBalancer() in rotation", () => {
	it("has no endpoint before the first update (classic 9.2.1, 9.2.2)", () => {
		const { balancer } = aBalancer(NO_AFFINITY);
		expect(pickNumber(balancer)).toBeUndefined();
	});

	it("gives a single endpoint each time (classic 9.2.2)", () => {
		const { balancer } = aBalancer(NO_AFFINITY, 1);
		expect(times(4, () => pickNumber(balancer))).toEqual([1, 1, 1, 1]);
	});

	it("takes three endpoints by turns, whoever asks (classic 9.2.3)", () => {
		const { balancer } = aBalancer(NO_AFFINITY, 1, 2, 3);
		expect(times(5, () => pickNumber(balancer, 7))).toEqual([1, 2, 3, 1, 2]);
		expect(pickNumber(balancer, 8)).toBe(3);
	});

	it("rotates each ServicePort by itself (classic 9.2.4)", () => {
		const p = aBalancer(NO_AFFINITY, 1, 2, 3).balancer;
		const q = aBalancer(NO_AFFINITY, 4, 5, 6).balancer;
		expect(times(2, () => pickNumber(p))).toEqual([1, 2]);
		expect(times(4, () => pickNumber(q))).toEqual([4, 5, 6, 4]);
		expect(pickNumber(p)).toBe(3);
	});

	it("goes on with other endpoints, and with none has none (classic 9.2.5)", () => {
		const { balancer } = aBalancer(NO_AFFINITY, 1, 2, 3);
		pickNumber(balancer);
		balancer.update(endpoints(4, 5), NO_AFFINITY);
		expect(times(3, () => pickNumber(balancer))).toEqual([4, 5, 4]);
		balancer.update([], NO_AFFINITY);
		expect(pickNumber(balancer)).toBeUndefined();
		expect(balancer.has(anEndpoint(4).key)).toBe(false);
	});

	it("tells nothing about affinity", () => {
		expect(affinityOf(aBalancer(NO_AFFINITY, 1).balancer)).toBeUndefined();
	});

	it("gives what was not tried while there is one, then again by turns (case 24b)", () => {
		const { balancer } = aBalancer(NO_AFFINITY, 1, 2, 3);
		expect(pickNumber(balancer, 1, 1, 3)).toBe(2);
		expect(pickNumber(balancer, 1, 1, 2, 3)).toBe(3);
		expect(pickNumber(balancer, 1, 1, 2, 3)).toBe(1);
	});
});

describe("createBalancer() after failures", () => {
	it("tries a failed endpoint last, and not at all while another is left", () => {
		const { balancer } = aBalancer(NO_AFFINITY, 1, 2, 3);
		balancer.failed(anEndpoint(2), "timeout");
		expect(times(4, () => pickNumber(balancer))).toEqual([1, 3, 1, 3]);
		expect(pickNumber(balancer, 1, 1, 3)).toBe(2);
	});

	it("goes on giving the only endpoint", () => {
		const { balancer } = aBalancer(NO_AFFINITY, 1);
		balancer.failed(anEndpoint(1), "refused");
		expect(times(3, () => pickNumber(balancer))).toEqual([1, 1, 1]);
	});

	it("rotates among endpoints that all failed", () => {
		const { balancer } = aBalancer(NO_AFFINITY, 1, 2);
		balancer.failed(anEndpoint(1), "refused");
		balancer.failed(anEndpoint(2), "refused");
		expect(times(4, () => pickNumber(balancer))).toEqual([1, 2, 1, 2]);
	});

	it("sends one connection to find out after the penalty, then all once it answered", () => {
		const { balancer, clock } = aBalancer(NO_AFFINITY, 1, 2);
		balancer.failed(anEndpoint(1), "timeout");
		clock.nowMs = 1000;
		expect(times(4, () => pickNumber(balancer))).toEqual([1, 2, 2, 2]);
		balancer.answered(anEndpoint(1), aClient(1));
		expect(times(4, () => pickNumber(balancer))).toEqual([1, 2, 1, 2]);
		expect(balancer.stats().failing).toBe(0);
	});

	it.each<[DialOutcome, boolean]>([
		["refused", true],
		["timeout", true],
		["unreachable", true],
		["local-error", false],
		["abandoned", false],
	])("%s is held against the endpoint: %s", (outcome, held) => {
		const { balancer } = aBalancer(NO_AFFINITY, 1, 2);
		balancer.failed(anEndpoint(1), outcome);
		expect(balancer.stats().failing).toBe(held ? 1 : 0);
		expect(pickNumber(balancer)).toBe(held ? 2 : 1);
	});

	it("does not remember an endpoint that is gone, nor one that went during the dial", () => {
		const { balancer } = aBalancer(NO_AFFINITY, 1, 2);
		balancer.failed(anEndpoint(1), "timeout");
		balancer.update(endpoints(2), NO_AFFINITY);
		balancer.failed(anEndpoint(1), "timeout");
		expect(balancer.stats().failing).toBe(0);
	});
});

describe("createBalancer(), what it tells of failures", () => {
	it("names the endpoints that are tried last, as long as they are", () => {
		const { balancer, clock } = aBalancer(NO_AFFINITY, 1, 2, 3);
		expect(balancer.failing()).toEqual([]);
		balancer.failed(anEndpoint(3), "refused");
		balancer.failed(anEndpoint(1), "refused");
		expect(balancer.failing()).toEqual([anEndpoint(1).key, anEndpoint(3).key]);
		expect(balancer.stats().failing).toBe(2);
		balancer.answered(anEndpoint(1), aClient(1));
		expect(balancer.failing()).toEqual([anEndpoint(3).key]);
		clock.nowMs = 1000;
		expect(balancer.failing()).toEqual([]);
		expect(balancer.stats().failing).toBe(0);
	});

	it("trusts an endpoint again that was used since it failed and did not refuse", () => {
		const { balancer, clock } = aBalancer(BY_CLIENT, 1, 2);
		balancer.failed(anEndpoint(1), "refused");
		clock.nowMs = 1000;
		expect(pickNumber(balancer)).toBe(1);
		balancer.unrefuted(anEndpoint(1), 1000);
		expect(balancer.failing()).toEqual([]);
	});

	it("takes no trust from silence that began before the failure, and moves nobody for silence", () => {
		const { balancer, clock } = aBalancer(BY_CLIENT, 1, 2);
		expect(pickNumber(balancer)).toBe(1);
		clock.nowMs = 5000;
		balancer.failed(anEndpoint(1), "refused");
		expect(connectNumber(balancer)).toBe(2);
		balancer.unrefuted(anEndpoint(1), 0);
		expect(balancer.failing()).toEqual([anEndpoint(1).key]);
		clock.nowMs = 60_000;
		expect(connectNumber(balancer)).toBe(2);
	});

	it("counts clients forgotten by a full table over all tables it had, and says each at once", () => {
		let told = 0;
		const balancer = createBalancer({
			now: () => 0,
			random: () => 0,
			maxAffinityClients: 2,
			onAffinityEviction: () => {
				told += 1;
			},
		});
		for (let round = 0; round < 2; round += 1) {
			balancer.update(endpoints(1), NO_AFFINITY);
			balancer.update(endpoints(1), BY_CLIENT);
			for (const client of [1, 2, 3]) connectNumber(balancer, client);
		}
		expect([balancer.stats().affinityEvictions, told]).toEqual([2, 2]);
	});
});

describe("createBalancer() with ClientIP affinity", () => {
	it("keeps three clients where they first came (classic 9.2.7)", () => {
		const { balancer } = aBalancer(BY_CLIENT, 1, 2, 3);
		const first = [1, 2, 3].map((client) => connectNumber(balancer, client));
		expect(first).toEqual([1, 2, 3]);
		for (const client of [3, 1, 2, 2, 3, 1]) expect(connectNumber(balancer, client)).toBe(client);
	});

	it("works the same when the endpoints come after the Service, and the other way round (classic 9.2.7, 9.2.8)", () => {
		const { balancer } = aBalancer(BY_CLIENT);
		balancer.update(endpoints(1, 2), BY_CLIENT);
		const later = aBalancer(NO_AFFINITY, 1, 2).balancer;
		later.update(endpoints(1, 2), BY_CLIENT);
		for (const each of [balancer, later]) {
			expect([1, 2, 3, 1, 2, 3].map((client) => connectNumber(each, client))).toEqual([
				1, 2, 1, 1, 2, 1,
			]);
		}
	});

	it("moves only the clients of an endpoint that went (classic 9.2.9)", () => {
		const { balancer } = aBalancer(BY_CLIENT, 1, 2, 3);
		for (const client of [1, 2, 3]) connectNumber(balancer, client);
		balancer.update(endpoints(1, 2), BY_CLIENT);
		expect(connectNumber(balancer, 1)).toBe(1);
		expect(connectNumber(balancer, 2)).toBe(2);
		expect(affinityOf(balancer, 3)).toBe("moved");
		const moved = connectNumber(balancer, 3);
		balancer.update(endpoints(1, 2, 4), BY_CLIENT);
		expect([1, 2, 3].map((client) => connectNumber(balancer, client))).toEqual([1, 2, moved]);
	});

	it("gives everyone a new endpoint when all were replaced, and none when none is left (classic 9.2.10)", () => {
		const { balancer } = aBalancer(BY_CLIENT, 1, 2, 3);
		for (const client of [1, 2, 3]) connectNumber(balancer, client);
		balancer.update(endpoints(4, 5, 6), BY_CLIENT);
		expect([1, 2, 3, 1, 2, 3].map((client) => connectNumber(balancer, client))).toEqual([
			4, 5, 6, 4, 5, 6,
		]);
		balancer.update([], BY_CLIENT);
		expect(connectNumber(balancer, 1)).toBeUndefined();
	});

	it("says assigned, kept and moved", () => {
		const { balancer } = aBalancer(BY_CLIENT, 1, 2);
		expect(affinityOf(balancer)).toBe("assigned");
		connectNumber(balancer);
		expect(affinityOf(balancer)).toBe("kept");
		balancer.failed(anEndpoint(1), "timeout");
		expect(affinityOf(balancer)).toBe("moved");
		connectNumber(balancer);
		expect(affinityOf(balancer)).toBe("kept");
	});

	it("sends connections that a new client makes at once to one endpoint", () => {
		const { balancer } = aBalancer(BY_CLIENT, 1, 2, 3);
		expect(times(6, () => pickNumber(balancer))).toEqual([1, 1, 1, 1, 1, 1]);
	});

	it("moves to the endpoint that answered after the first failed (classic 9.1.24, 9.2.12)", () => {
		const { balancer, clock } = aBalancer(BY_CLIENT, 1, 2, 3);
		connectNumber(balancer);
		balancer.failed(anEndpoint(1), "refused");
		expect(pickNumber(balancer, 1, 1)).toBe(2);
		balancer.answered(anEndpoint(2), aClient(1));
		clock.nowMs = 5000;
		expect(connectNumber(balancer)).toBe(2);
	});

	it("is never with an endpoint that did not answer", () => {
		const { balancer } = aBalancer(BY_CLIENT, 1, 2, 3);
		connectNumber(balancer);
		balancer.failed(anEndpoint(1), "refused");
		expect(pickNumber(balancer, 1, 1)).toBe(2);
		balancer.failed(anEndpoint(2), "timeout");
		expect(pickNumber(balancer)).toBe(3);
		expect(affinityOf(balancer)).toBe("moved");
	});

	it("comes back to the endpoint that answered when the one after it never did", () => {
		const { balancer, clock } = aBalancer(BY_CLIENT, 1, 2, 3);
		connectNumber(balancer);
		balancer.failed(anEndpoint(1), "refused");
		expect(pickNumber(balancer, 1, 1)).toBe(2);
		balancer.failed(anEndpoint(2), "refused");
		clock.nowMs = 1000;
		expect(balancer.pick({ clientAddress: aClient(1), tried: new Set() })).toMatchObject({
			endpoint: { key: anEndpoint(1).key },
			affinity: "kept",
		});
	});

	it.each([1, 2, 3])("is not lost when every endpoint failed at once: client %i", (client) => {
		const { balancer } = aBalancer(BY_CLIENT, 1, 2, 3);
		for (const each of [1, 2, 3]) connectNumber(balancer, each);
		const tried: number[] = [];
		for (let attempt = 0; attempt < 3; attempt += 1) {
			const number = pickNumber(balancer, client, ...tried) ?? expect.unreachable();
			tried.push(number);
			balancer.failed(anEndpoint(number), "unreachable");
		}
		expect(new Set(tried).size).toBe(3);
		expect(connectNumber(balancer, client)).toBe(client);
	});

	it("goes round among endpoints that all failed while the client has none to come back to", () => {
		const { balancer } = aBalancer(BY_CLIENT, 1, 2, 3);
		const tried: number[] = [];
		for (let attempt = 0; attempt < 6; attempt += 1) {
			const number = pickNumber(balancer, 1, ...tried) ?? expect.unreachable();
			tried.push(number);
			balancer.failed(anEndpoint(number), "unreachable");
		}
		expect(tried).toEqual([1, 2, 3, 1, 2, 3]);
	});

	it("stays with the only endpoint although it fails", () => {
		const { balancer } = aBalancer(BY_CLIENT, 1);
		connectNumber(balancer);
		balancer.failed(anEndpoint(1), "timeout");
		expect(affinityOf(balancer)).toBe("kept");
	});

	it("leaves other clients alone when one client's tries go round (classic 9.2.12)", () => {
		const { balancer } = aBalancer(BY_CLIENT, 1, 2, 3);
		for (const client of [1, 2, 3]) connectNumber(balancer, client);
		expect(pickNumber(balancer, 1, 1)).toBe(2);
		expect(pickNumber(balancer, 1, 1, 2)).toBe(3);
		expect(connectNumber(balancer, 2)).toBe(2);
		expect(connectNumber(balancer, 3)).toBe(3);
	});

	it("slides the timeout with each connection and takes a new one at once (classic 9.1.33, 9.8.5)", () => {
		const { balancer, clock } = aBalancer({ type: "ClientIP", timeoutMs: 1000 }, 1, 2);
		expect(connectNumber(balancer)).toBe(1);
		for (clock.nowMs = 999; clock.nowMs < 5000; clock.nowMs += 999) {
			expect(connectNumber(balancer)).toBe(1);
		}
		balancer.update(endpoints(1, 2), { type: "ClientIP", timeoutMs: 60_000 });
		clock.nowMs += 30_000;
		expect(connectNumber(balancer)).toBe(1);
		balancer.update(endpoints(1, 2), { type: "ClientIP", timeoutMs: 10 });
		clock.nowMs += 10;
		expect(connectNumber(balancer)).toBe(2);
	});

	it("is switched off and on live, and forgets meanwhile", () => {
		const { balancer } = aBalancer(BY_CLIENT, 1, 2);
		expect(connectNumber(balancer)).toBe(1);
		balancer.update(endpoints(1, 2), NO_AFFINITY);
		expect(times(2, () => connectNumber(balancer))).toEqual([2, 1]);
		balancer.update(endpoints(1, 2), BY_CLIENT);
		expect(times(2, () => connectNumber(balancer))).toEqual([2, 2]);
		expect(balancer.stats().affinityClients).toBe(1);
	});

	it("does not bind a client to an endpoint that went during the dial", () => {
		const { balancer } = aBalancer(BY_CLIENT, 1, 2);
		expect(pickNumber(balancer)).toBe(1);
		balancer.update(endpoints(2), BY_CLIENT);
		balancer.answered(anEndpoint(1), aClient(1));
		balancer.update(endpoints(1, 2), BY_CLIENT);
		balancer.update(endpoints(2), BY_CLIENT);
		expect(connectNumber(balancer)).toBe(2);
		expect(affinityOf(balancer)).toBe("kept");
	});
});

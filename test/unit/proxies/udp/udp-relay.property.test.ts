import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test as it, vi } from "vitest";
import type { DropReason } from "../../../../src/proxies/drop-reason.ts";
import type { ServicePortListener } from "../../../../src/proxies/listener.ts";
import type { ConnectionRecord } from "../../../../src/services/connection-record.ts";
import { anEndpointAt, aServicePort } from "../builders.ts";
import { aUdpRelay, type FakeSocket } from "./udp-fakes.ts";

const MAX_FLOWS = 4;

/** Drops of what came from an endpoint, or of what is no datagram of a client that we know. */
const NOT_FROM_CLIENTS: ReadonlySet<DropReason> = new Set([
	"answer-failed",
	"answer-queue-full",
	"foreign-sender",
	"receive-failed",
]);

const codes = ["ECONNREFUSED", "EHOSTUNREACH", "EMFILE", "EPERM", "EIO"];
const code = fc.constantFrom(...codes);
const small = fc.nat({ max: 5 });

type Step = (world: World) => void;

const step: fc.Arbitrary<Step> = fc.oneof(
	{
		weight: 6,
		arbitrary: fc.tuple(fc.nat({ max: 1 }), small).map(
			([listener, client]) =>
				(world: World) =>
					world.ask(listener, client),
		),
	},
	{
		weight: 3,
		arbitrary: small.map((flow) => (world: World) => world.flow(flow)?.answer("answer")),
	},
	{ weight: 2, arbitrary: small.map((flow) => (world: World) => world.flow(flow)?.ready()) },
	{
		weight: 2,
		arbitrary: fc.tuple(small, fc.option(code, { nil: undefined })).map(
			([flow, failure]) =>
				(world: World) =>
					world.complete(flow, failure),
		),
	},
	{
		weight: 2,
		arbitrary: fc.tuple(small, code).map(
			([flow, failure]) =>
				(world: World) =>
					world.flow(flow)?.fail(failure),
		),
	},
	code.map((failure) => (world: World) => world.lab.net.failNext("connect", failure)),
	code.map((failure) => (world: World) => world.lab.net.failNext("send", failure)),
	fc.tuple(fc.boolean(), fc.boolean()).map(
		([connects, sends]) =>
			(world: World) =>
				world.setSpeed(connects, sends),
	),
	fc.tuple(fc.nat({ max: 1 }), fc.subarray([1, 2, 3])).map(
		([listener, numbers]) =>
			(world: World) =>
				world.update(listener, numbers),
	),
	fc.integer({ min: 1, max: 6_000 }).map((ms) => (world: World) => world.pass(ms)),
);

/** Two listeners of one relay on fake sockets; notes whatever is wrong after each step. */
class World {
	readonly lab = aUdpRelay({
		limits: { idleMs: 500, firstAnswerMs: 5_000, maxFlows: MAX_FLOWS },
		descriptors: MAX_FLOWS,
	});
	readonly faults: string[] = [];
	readonly #listeners: ServicePortListener[] = [];
	#asked = 0;

	async open(): Promise<void> {
		for (const listener of [0, 1]) {
			const servicePort = servicePortOf(listener, [1, 2, 3]);
			this.#listeners.push(await this.lab.relay.open(servicePort, { address: undefined, port: 0 }));
		}
	}

	/** One of the open flow sockets, if there are any. */
	flow(index: number): FakeSocket | undefined {
		const { openFlows } = this.lab.net;
		return openFlows[index % Math.max(1, openFlows.length)];
	}

	ask(listener: number, client: number): void {
		this.#asked += 1;
		this.lab.net.sockets[listener]?.receive(`${this.#asked}`, "10.1.0.2", 4_000 + client);
	}

	complete(flow: number, failure: string | undefined): void {
		this.flow(flow)?.pending[0]?.complete(failure);
	}

	setSpeed(connectsAtOnce: boolean, sendsAtOnce: boolean): void {
		this.lab.net.connectsAtOnce = connectsAtOnce;
		this.lab.net.sendsAtOnce = sendsAtOnce;
	}

	update(listener: number, numbers: readonly number[]): void {
		this.#listeners[listener]?.update(servicePortOf(listener, numbers));
	}

	pass(ms: number): void {
		this.lab.clock.nowMs += ms;
		if (vi.getTimerCount() > 0) vi.advanceTimersToNextTimer();
	}

	check(): void {
		this.lab.net.settle();
		const { net, relay, budget, counts, records } = this.lab;
		const flows = relay.count();
		const open = net.openFlows;
		this.#expect(flows <= MAX_FLOWS, `${flows} flows`);
		this.#expect(open.length === flows, `${open.length} sockets for ${flows} flows`);
		this.#expect(budget.used === flows, `${budget.used} descriptors for ${flows} flows`);
		this.#expect(counts.starts === records.length + flows, "a start or an end is not told");
		const clients = new Set(relay.connections().map((each) => `${each.service} ${each.client}`));
		this.#expect(clients.size === flows, "two flows of one client");
		const closedTwice = net.sockets.filter(({ closeCount }) => closeCount > 1);
		this.#expect(closedTwice.length === 0, "a socket was closed twice");
		this.#expect(flows === 0 || vi.getTimerCount() === 1, "nobody looks for silent flows");
		this.#expect(
			open.every(({ pending }) => pending.length <= 1),
			"two sends at once",
		);
	}

	async close(): Promise<void> {
		await this.lab.relay.close();
		const { net, relay, records, counts, budget } = this.lab;
		this.#expect(
			net.sockets.every(({ closeCount }) => closeCount === 1),
			"a socket is left open",
		);
		this.#expect(records.length === counts.starts, "a flow has no record");
		this.#expect(budget.used === 0, `${budget.used} descriptors are not given back`);
		this.#expect(vi.getTimerCount() === 0, "a timer is left");
		const dropped = [...relay.droppedByReason()]
			.filter(([reason]) => !NOT_FROM_CLIENTS.has(reason))
			.reduce((sum, [, count]) => sum + count, 0);
		const sent = records.reduce((sum, { datagramsIn = 0 }) => sum + datagramsIn, 0);
		this.#expect(
			sent + dropped === this.#asked,
			`${this.#asked} datagrams came: ${sent} sent, ${dropped} dropped`,
		);
		for (const record of records) this.#checkRecord(record);
	}

	#checkRecord({ id, attempts, attemptCount, endpoint, end, datagramsOut = 0 }: ConnectionRecord) {
		this.#expect(attempts.length === attemptCount, `flow ${id}: attempts`);
		this.#expect(attemptCount >= 1 && attemptCount <= 5, `flow ${id}: ${attemptCount} attempts`);
		this.#expect(datagramsOut === 0 || endpoint !== undefined, `flow ${id}: who answered?`);
		this.#expect(end !== "idle" || datagramsOut > 0, `flow ${id}: idle without an answer`);
		this.#expect(end !== "unanswered" || datagramsOut === 0, `flow ${id}: has an answer`);
	}

	#expect(holds: boolean, fault: string): void {
		if (!holds) this.faults.push(fault);
	}
}

function servicePortOf(listener: number, numbers: readonly number[]) {
	return aServicePort({
		name: `service-${listener}`,
		protocol: "udp",
		endpoints: numbers.map((number) => anEndpointAt(`10.2.${number}.2`, 53)),
	});
}

describe("the UDP relay, whatever happens in whatever order", () => {
	beforeEach(() => {
		vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
	});

	afterEach(() => {
		vi.useRealTimers();
	});

	it("has one open socket per flow, bounded, closes each once, and accounts for every datagram", async () => {
		await fc.assert(
			fc.asyncProperty(fc.array(step, { maxLength: 80, size: "max" }), async (steps) => {
				const world = new World();
				await world.open();
				for (const take of steps) {
					take(world);
					world.check();
				}
				await world.close();
				expect(world.faults).toEqual([]);
			}),
			{ numRuns: 300 },
		);
	});
});

import { describe, expect, test as it } from "vitest";
import { createBalancer } from "../../../src/balancing/balancer.ts";
import { TcpCourse } from "../../../src/proxies/tcp-course.ts";
import type { SessionAffinity } from "../../../src/services/objects.ts";
import { anAddress, anEndpointAt } from "./builders.ts";

const A = anEndpointAt("10.2.1.2", 8080, "pod-a");
const B = anEndpointAt("10.2.2.2", 8080, "pod-b");

/** A client's connection, and the clock that it looks at. */
function aWorld({
	dialTimeoutsMs = [250, 500, 1000],
	drainRemovedMs = undefined as number | undefined,
	affinity = { type: "None" } as SessionAffinity,
} = {}) {
	const clock = { nowMs: 0 };
	const balancer = createBalancer({ now: () => clock.nowMs, random: () => 0 });
	const update = (...endpoints: (typeof A)[]) => balancer.update(endpoints, affinity);
	update(A, B);
	const servicePort = {
		name: "shop/cart:http",
		family: "ipv4",
		endpoints: [A, B],
		sessionAffinity: affinity,
	} as const;
	const course = new TcpCourse(
		"1",
		{ address: anAddress("10.1.0.2"), port: 41_234, servicePort, balancer },
		{ dialTimeoutsMs, halfCloseIdleMs: 1000, drainRemovedMs },
		{ wallMs: () => 1_700_000_000_000, monotonicMs: () => clock.nowMs },
	);
	return { course, clock, balancer, update };
}

describe("TcpCourse that is dialing", () => {
	it("gives each try its timeout and goes to another endpoint each time, then round again (case 24b, classic 9.1.23)", () => {
		const { course, clock } = aWorld();
		const tries = Array.from({ length: 3 }, () => {
			const endpoint = course.next();
			clock.nowMs += 10;
			const pauseMs = course.failed("refused", "ECONNREFUSED");
			return { endpoint, timeoutMs: course.timeoutMs, pauseMs };
		});
		expect(tries).toEqual([
			{ endpoint: A, timeoutMs: 250, pauseMs: 0 },
			{ endpoint: B, timeoutMs: 500, pauseMs: 0 },
			{ endpoint: A, timeoutMs: 1000, pauseMs: 0 },
		]);
		expect(course.next()).toBe("unreachable");
		expect(course.end("unreachable", 0, 0)).toEqual({
			id: "1",
			protocol: "tcp",
			family: "ipv4",
			service: "shop/cart:http",
			client: "10.1.0.2:41234",
			endpoint: undefined,
			podName: undefined,
			attempts: [A, B, A].map(({ key }) => ({
				endpoint: key,
				outcome: "refused",
				durationMs: 10,
				errorCode: "ECONNREFUSED",
			})),
			attemptCount: 3,
			affinity: undefined,
			bytesIn: 0,
			bytesOut: 0,
			datagramsIn: undefined,
			datagramsOut: undefined,
			startedAtMs: 1_700_000_000_000,
			durationMs: 30,
			connectMs: undefined,
			end: "unreachable",
		});
	});

	it("pauses after a fault of this node, never longer than a try, and does not hold it against the endpoint", () => {
		const { course, balancer } = aWorld({ dialTimeoutsMs: [100, 1000] });
		course.next();
		expect(course.failed("local-error", "EMFILE")).toBe(100);
		course.next();
		expect(course.failed("local-error", "EMFILE")).toBe(250);
		expect(balancer.failing()).toEqual([]);
	});

	it("remembers an endpoint that failed, for others too", () => {
		const { course, balancer } = aWorld();
		course.next();
		course.failed("timeout", undefined);
		expect(balancer.failing()).toEqual([A.key]);
	});

	it.each([
		{ outcomes: ["local-error", "local-error"], end: "overload" },
		{ outcomes: ["local-error", "refused"], end: "unreachable" },
	] as const)("ends as $end after $outcomes", ({ outcomes, end }) => {
		const { course } = aWorld({ dialTimeoutsMs: [250, 250] });
		for (const outcome of outcomes) {
			course.next();
			course.failed(outcome, undefined);
		}
		expect(course.next()).toBe(end);
	});

	it("has none to try when the last endpoint goes between two tries", () => {
		const { course, update } = aWorld();
		course.next();
		update();
		course.failed("refused", "ECONNREFUSED");
		expect(course.next()).toBe("no-endpoint");
		expect(course.end("no-endpoint", 0, 0).attemptCount).toBe(1);
	});

	it("records sixteen tries and counts all", () => {
		const { course } = aWorld({ dialTimeoutsMs: Array.from({ length: 20 }, () => 250) });
		while (typeof course.next() !== "string") course.failed("refused", "ECONNREFUSED");
		const { attempts, attemptCount } = course.end("unreachable", 0, 0);
		expect([attempts.length, attemptCount]).toEqual([16, 20]);
	});

	it("records the try that goes on as abandoned, and that nobody served the client", () => {
		const { course } = aWorld();
		course.next();
		expect(course.describe(0, 0, false)).toMatchObject({ state: "dialing", endpoint: undefined });
		const record = course.end("client-gone", 0, 0);
		expect(record).toMatchObject({
			endpoint: undefined,
			affinity: undefined,
			attempts: [{ endpoint: A.key, outcome: "abandoned" }],
		});
	});
});

describe("TcpCourse that is open", () => {
	it("is bound to the endpoint that answered, and tells who that is", () => {
		const { course, clock, balancer } = aWorld({
			affinity: { type: "ClientIP", timeoutMs: 10_800_000 },
		});
		course.next();
		course.failed("refused", "ECONNREFUSED");
		course.next();
		clock.nowMs += 7;
		course.connected();
		const [clientAddress, tried] = [anAddress("10.1.0.2"), new Set<string>()];
		expect(balancer.pick({ clientAddress, tried })).toEqual({ endpoint: B, affinity: "kept" });
		expect(course.describe(1, 2, false)).toEqual({
			id: "1",
			protocol: "tcp",
			service: "shop/cart:http",
			client: "10.1.0.2:41234",
			endpoint: B.key,
			startedAtMs: 1_700_000_000_000,
			bytesIn: 1,
			bytesOut: 2,
			state: "open",
		});
		expect(course.describe(1, 2, true).state).toBe("half-closed");
		clock.nowMs += 3;
		expect(course.end("closed", 4, 5)).toMatchObject({
			endpoint: B.key,
			podName: "pod-b",
			affinity: "assigned",
			connectMs: 7,
			durationMs: 10,
			bytesIn: 4,
			bytesOut: 5,
			attempts: [{ outcome: "refused" }, { outcome: "connected", errorCode: undefined }],
		});
	});

	it("goes on for as long as it likes when its endpoint is removed, unless there is a limit", () => {
		const { course, clock, update } = aWorld();
		course.next();
		course.connected();
		update(B);
		clock.nowMs += 1e9;
		expect(course.isDrained()).toBe(false);
	});

	it("has to end that long after its endpoint's removal was seen", () => {
		const { course, clock, update } = aWorld({ drainRemovedMs: 60_000 });
		course.next();
		course.connected();
		clock.nowMs += 1_000_000;
		expect(course.isDrained()).toBe(false);
		update(B);
		expect(course.isDrained()).toBe(false);
		clock.nowMs += 59_999;
		expect(course.isDrained()).toBe(false);
		clock.nowMs += 1;
		expect(course.isDrained()).toBe(true);
	});

	it("goes on when the endpoint comes back in time", () => {
		const { course, clock, update } = aWorld({ drainRemovedMs: 60_000 });
		course.next();
		course.connected();
		update(B);
		course.isDrained();
		clock.nowMs += 59_999;
		update(A);
		course.isDrained();
		update();
		for (let times = 0; times < 2; times += 1) {
			clock.nowMs += 59_999;
			expect(course.isDrained()).toBe(false);
		}
	});

	it("is silent when nothing has moved for the limit, and not while something does", () => {
		const { course, clock } = aWorld();
		clock.nowMs += 1_000_000;
		for (let times = 0; times < 3; times += 1) {
			expect(course.isSilent(true)).toBe(false);
			clock.nowMs += 999;
		}
		expect(course.isSilent(false)).toBe(false);
		clock.nowMs += 1;
		expect(course.isSilent(false)).toBe(true);
	});
});

import { afterEach, beforeEach, describe, expect, test as it, vi } from "vitest";
import { type RulesPart, Sync } from "../../../src/daemon/sync.ts";
import { DescriptorBudget } from "../../../src/proxies/descriptor-budget.ts";
import type { ReconcileOutcome, RelayEngine } from "../../../src/proxies/engine.ts";
import type { WantedRules } from "../../../src/rules/plan.ts";
import { toBinding } from "../../../src/services/binding.ts";
import { PLAIN_NETWORK } from "../../../src/services/node-network.ts";
import type { Snapshot } from "../../../src/services/objects.ts";
import { planServicePorts } from "../../../src/services/plan-service-ports.ts";
import { toPort } from "../../../src/services/port.ts";
import type { Binding, ServicePort, ServicePortKey } from "../../../src/services/service-port.ts";
import { silentLog } from "../../../src/shared/log.ts";
import { rawService, rawSlice } from "../../kit/raw-objects.ts";
import { snapshotOf } from "../../kit/snapshots.ts";
import { plainView } from "../../kit/views.ts";

beforeEach(() => {
	vi.useFakeTimers();
});
afterEach(() => {
	vi.useRealTimers();
});

/** An engine and rules that do nothing but write down what they are asked, in order. */
class Recorder implements RulesPart {
	readonly calls: string[] = [];
	listenFailures = new Set<string>();
	rulesFail = false;
	flowsFail = false;
	/** What a cleaning of flows waits for. */
	flowsHang: Promise<void> | undefined;
	reconcileHang: Promise<void> | undefined;
	#inForce: ReadonlySet<ServicePortKey> = new Set();
	#bindings: readonly Binding[] = [];

	readonly engine: RelayEngine = {
		name: "stream",
		reconcile: async (wanted) => {
			await this.reconcileHang;
			return this.#reconcile(wanted);
		},
		descriptors: new DescriptorBudget(1_000),
		retire: (referenced) => void this.calls.push(`retire ${[...referenced].join(",")}`),
		connections: () => Promise.resolve([]),
		want: () => {},
		recent: () => Promise.resolve([]),
		failingEndpoints: () => Promise.resolve(new Map()),
		stats: () => {
			throw new Error("not asked for here");
		},
		drain: () => Promise.resolve(0),
		close: () => Promise.resolve(),
	};

	bringUp({ bindings }: WantedRules, verify: boolean): Promise<void> {
		const names = bindings.map(({ name }) => name).join(",");
		this.calls.push(`${verify ? "verify and " : ""}apply ${names}`);
		if (this.rulesFail) return Promise.reject(new Error("xtables lock is held"));
		this.#inForce = new Set(bindings.map(({ key }) => key));
		return Promise.resolve();
	}

	async cleanFlows(signal: AbortSignal): Promise<void> {
		this.calls.push("clean flows");
		await this.flowsHang;
		if (signal.aborted || this.flowsFail) throw new Error("conntrack did not end in time");
	}

	inForce(): ReadonlySet<ServicePortKey> {
		return this.#inForce;
	}

	#reconcile(wanted: readonly ServicePort[]): ReconcileOutcome {
		this.calls.push(`reconcile ${wanted.map(({ name }) => name).join(",")}`);
		const opened = wanted.filter(({ name }) => !this.listenFailures.has(name));
		const failed = wanted.filter(({ name }) => this.listenFailures.has(name));
		const bindings = opened.map((servicePort) =>
			toBinding(servicePort, { proxyPort: toPort(40_000), listenAddress: undefined }),
		);
		// As engines do: the same list while it says the same.
		if (JSON.stringify(bindings) !== JSON.stringify(this.#bindings)) this.#bindings = bindings;
		return {
			bindings: this.#bindings,
			problems: failed.map(({ key, name }) => ({ key, name, error: new Error("address in use") })),
		};
	}
}

function aSync(recorder: Recorder, initial?: Snapshot, log = silentLog) {
	let snapshot = initial;
	let inForceCalls = 0;
	const sync = new Sync({
		snapshot: () => snapshot,
		plan: (current) => planServicePorts(current, plainView, { serviceProxyName: undefined }),
		onPlan: () => {},
		onInForce: () => {
			inForceCalls += 1;
		},
		engine: recorder.engine,
		network: () => PLAIN_NETWORK,
		rules: recorder,
		rulesMinIntervalMs: 1_000,
		modelPeriodMs: 900_000,
		log,
		clock: { wallMs: () => Date.now(), monotonicMs: () => Date.now() },
	});
	return {
		sync,
		set: (next: Snapshot | undefined) => {
			snapshot = next;
			sync.request();
		},
		inForceCalls: () => inForceCalls,
	};
}

const cart = snapshotOf([rawService()], [rawSlice()]);
const both = snapshotOf(
	[rawService(), rawService({ name: "pay", clusterIp: "10.96.0.11" })],
	[rawSlice()],
);
const KEY = "shop/cart:http/tcp/ipv4";

describe("Sync", () => {
	it("does nothing before every source has delivered, whatever is asked for (case 22b, classic 9.7.7)", async () => {
		const recorder = new Recorder();
		const { sync, set, inForceCalls } = aSync(recorder);
		set(undefined);
		sync.requestVerify();
		await vi.advanceTimersByTimeAsync(60_000);
		expect(recorder.calls).toEqual([]);
		expect(inForceCalls()).toBe(0);
		await sync.stop();
	});

	it("leaves the rules alone when the listeners are where they were (case 30c)", async () => {
		const recorder = new Recorder();
		const { sync, set, inForceCalls } = aSync(recorder);
		set(cart);
		await vi.advanceTimersByTimeAsync(2_000);
		recorder.calls.length = 0;
		set(snapshotOf([rawService()], [rawSlice({ endpoints: ["10.244.1.9"] })]));
		await vi.advanceTimersByTimeAsync(2_000);
		expect(recorder.calls).toEqual(["reconcile shop/cart:http"]);
		// What came is in force all the same.
		expect(inForceCalls()).toBe(2);
		expect(sync.state().unappliedSinceMs).toBeUndefined();
		await sync.stop();
	});

	it("opens listeners, then applies rules, then lets go what no rule points at", async () => {
		const recorder = new Recorder();
		const { sync, set, inForceCalls } = aSync(recorder);
		set(cart);
		await vi.advanceTimersByTimeAsync(100);
		expect(recorder.calls).toEqual([
			"reconcile shop/cart:http",
			"apply shop/cart:http",
			"clean flows",
			`retire ${KEY}`,
		]);
		expect(inForceCalls()).toBe(1);
		expect(sync.state().unappliedSinceMs).toBeUndefined();
		await sync.stop();
	});

	it("hands new endpoints to the engine at once, while the rules keep their minimum interval (classic 9.1.32)", async () => {
		const recorder = new Recorder();
		const { sync, set } = aSync(recorder);
		set(cart);
		await vi.advanceTimersByTimeAsync(500);
		set(both);
		await vi.advanceTimersByTimeAsync(100);
		recorder.calls.length = 0;
		set(cart);
		await vi.advanceTimersByTimeAsync(150);
		expect(recorder.calls).toEqual(["reconcile shop/cart:http"]);
		await vi.advanceTimersByTimeAsync(1_000);
		expect(recorder.calls.slice(1)).toEqual([
			"apply shop/cart:http",
			"clean flows",
			`retire ${KEY}`,
		]);
		await sync.stop();
	});

	it("keeps what old rules point at while new ones are refused, and tries again", async () => {
		const recorder = new Recorder();
		const { sync, set, inForceCalls } = aSync(recorder);
		set(cart);
		await vi.advanceTimersByTimeAsync(2_000);
		recorder.rulesFail = true;
		recorder.calls.length = 0;
		const changedAtMs = Date.now();
		set(snapshotOf([]));
		await vi.advanceTimersByTimeAsync(2_000);
		expect(recorder.calls.slice(0, 2)).toEqual(["reconcile ", "apply "]);
		expect(recorder.calls.join(" ")).not.toContain("retire");
		expect(sync.state().rulesProblem).toContain("xtables lock");
		expect((sync.state().unappliedSinceMs ?? 0) - changedAtMs).toBeLessThan(100);
		recorder.rulesFail = false;
		recorder.calls.length = 0;
		await vi.advanceTimersByTimeAsync(20_000);
		expect(recorder.calls).toEqual(["apply ", "clean flows", "retire "]);
		expect(sync.state().rulesProblem).toBeUndefined();
		expect(sync.state().unappliedSinceMs).toBeUndefined();
		expect(inForceCalls()).toBe(2);
		await sync.stop();
	});

	it("serves the others while a listener cannot be opened, and tries that one again", async () => {
		const recorder = new Recorder();
		recorder.listenFailures.add("shop/pay:http");
		const { sync, set } = aSync(recorder);
		set(both);
		await vi.advanceTimersByTimeAsync(200);
		expect(recorder.calls).toContain("apply shop/cart:http");
		expect([...sync.state().listenProblems.values()]).toEqual(["address in use"]);
		recorder.listenFailures.clear();
		await vi.advanceTimersByTimeAsync(5_000);
		expect(recorder.calls).toContain("apply shop/cart:http,shop/pay:http");
		expect(sync.state().listenProblems.size).toBe(0);
		await sync.stop();
	});

	it("verifies when asked to, once the first state is there", async () => {
		const recorder = new Recorder();
		const { sync, set } = aSync(recorder);
		set(cart);
		await vi.advanceTimersByTimeAsync(2_000);
		recorder.calls.length = 0;
		sync.requestVerify();
		await vi.advanceTimersByTimeAsync(10);
		expect(recorder.calls[0]).toBe("verify and apply shop/cart:http");
		await sync.stop();
	});

	it("waits for no cleaning of UDP flows: neither to be in force nor to apply newer rules", async () => {
		const recorder = new Recorder();
		const hang = Promise.withResolvers<void>();
		recorder.flowsHang = hang.promise;
		const { sync, set, inForceCalls } = aSync(recorder);
		set(cart);
		await vi.advanceTimersByTimeAsync(2_000);
		expect(inForceCalls()).toBe(1);
		set(both);
		await vi.advanceTimersByTimeAsync(2_000);
		expect(inForceCalls()).toBe(2);
		expect(recorder.calls.filter((call) => call === "clean flows")).toHaveLength(1);
		// What flows still lead to stays open meanwhile.
		expect(recorder.calls.join(" ")).not.toContain("retire");
		hang.resolve();
		await vi.advanceTimersByTimeAsync(2_000);
		expect(recorder.calls.slice(-3)).toEqual([
			expect.stringContaining("retire"),
			"clean flows",
			expect.stringContaining("retire"),
		]);
		await sync.stop();
	});

	it("cleans UDP flows again after a failure, and lets go of listeners all the same", async () => {
		const recorder = new Recorder();
		recorder.flowsFail = true;
		const { sync, set } = aSync(recorder);
		set(cart);
		await vi.advanceTimersByTimeAsync(100);
		expect(recorder.calls.slice(-2)).toEqual(["clean flows", `retire ${KEY}`]);
		recorder.calls.length = 0;
		await vi.advanceTimersByTimeAsync(5_000);
		expect(recorder.calls).toContain("clean flows");
		recorder.flowsFail = false;
		await vi.advanceTimersByTimeAsync(10_000);
		recorder.calls.length = 0;
		await vi.advanceTimersByTimeAsync(60_000);
		expect(recorder.calls).toEqual([]);
		await sync.stop();
	});

	it("cleans the UDP flows of a family whose rules are in force while the other's fail (case 2f)", async () => {
		const recorder = new Recorder();
		recorder.rulesFail = true;
		const { sync, set } = aSync(recorder);
		set(cart);
		await vi.advanceTimersByTimeAsync(100);
		expect(recorder.calls).toContain("clean flows");
		expect(recorder.calls.join(" ")).not.toContain("retire");
		await sync.stop();
	});

	it("tells of nothing after stop(): neither that all is in force nor that a cleaning was ended", async () => {
		const recorder = new Recorder();
		const lines: string[] = [];
		const say = (_: object, message: string) => void lines.push(message);
		const log = { ...silentLog, error: say, warn: say, info: say };
		const { sync, set, inForceCalls } = aSync(recorder, undefined, log);
		set(cart);
		await vi.advanceTimersByTimeAsync(2_000);
		const cleaning = Promise.withResolvers<void>();
		recorder.flowsHang = cleaning.promise;
		sync.requestVerify();
		await vi.advanceTimersByTimeAsync(2_000);
		const reconciling = Promise.withResolvers<void>();
		recorder.reconcileHang = reconciling.promise;
		set(snapshotOf([rawService()], [rawSlice({ endpoints: ["10.244.1.9"] })]));
		await vi.advanceTimersByTimeAsync(500);
		const before = inForceCalls();
		const stopped = sync.stop();
		cleaning.resolve();
		reconciling.resolve();
		await stopped;
		expect(inForceCalls()).toBe(before);
		expect(lines).toEqual([]);
	});

	/** A state in which the Service's port has this name; none: without the Service. */
	const named = (name?: string) =>
		snapshotOf(name === undefined ? [] : [rawService({ ports: [{ name, port: 80 }] })]);

	it.each([
		["comes: it is served", [], ["new"], "new", true],
		["comes and changes: the latest is served", [], ["first", "new"], "new", true],
		["comes and goes: the rules are left alone", [], ["first", undefined], "", false],
		[
			"changes twice: the latest takes the place of the oldest",
			["old"],
			["mid", "new"],
			"new",
			true,
		],
		["changes and goes: the oldest goes", ["old"], ["mid", undefined], "", true],
		[
			"goes and comes: the new one takes the place of the old",
			["old"],
			[undefined, "new"],
			"new",
			true,
		],
		[
			"goes and comes as it was: the rules are left alone",
			["old"],
			[undefined, "old"],
			"old",
			false,
		],
	] as const)(
		"acts once on a Service that %s (classic 9.1.16, 9.1.17, 9.1.18, 9.1.19, 9.1.20, 9.1.21)",
		async (_what, [before], events, after, isApplied) => {
			const recorder = new Recorder();
			const { sync, set } = aSync(recorder);
			set(named(before));
			await vi.advanceTimersByTimeAsync(2_000);
			recorder.calls.length = 0;
			for (const event of events) {
				set(named(event));
				await vi.advanceTimersByTimeAsync(2);
			}
			await vi.advanceTimersByTimeAsync(2_000);
			const name = after === "" ? "" : `shop/cart:${after}`;
			const inForce = after === "" ? "" : `shop/cart:${after}/tcp/ipv4`;
			expect(recorder.calls).toEqual([
				`reconcile ${name}`,
				...(isApplied ? [`apply ${name}`, "clean flows", `retire ${inForce}`] : []),
			]);
			await sync.stop();
		},
	);

	it("begins no pass after stop()", async () => {
		const recorder = new Recorder();
		const { sync, set } = aSync(recorder);
		await sync.stop();
		set(cart);
		await vi.advanceTimersByTimeAsync(60_000);
		expect(recorder.calls).toEqual([]);
	});
});

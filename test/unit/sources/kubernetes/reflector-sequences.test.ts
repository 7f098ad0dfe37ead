import fc from "fast-check";
import { expect, test as it } from "vitest";
import { admitService } from "../../../../src/services/admit-service.ts";
import type { Service } from "../../../../src/services/objects.ts";
import { silentLog } from "../../../../src/shared/log.ts";
import { ApiError } from "../../../../src/sources/kubernetes/api-errors.ts";
import { DEFAULT_LIMITS } from "../../../../src/sources/kubernetes/limits.ts";
import { ObjectStore, one } from "../../../../src/sources/kubernetes/object-store.ts";
import { Reflector } from "../../../../src/sources/kubernetes/reflector.ts";
import { servicesResource } from "../../../../src/sources/kubernetes/resources.ts";
import { StreamingLists } from "../../../../src/sources/kubernetes/streaming-lists.ts";
import { apiService } from "../../../kit/fake-api/api-objects.ts";
import type { ApiObject } from "../../../kit/fake-api/objects.ts";
import type { Watch } from "../../../kit/fake-api/watch.ts";
import { lost, MemoryApi } from "./memory-api.ts";

const names = ["a", "b", "c", "d"] as const;
const name = fc.constantFrom(...names);
const port = fc.integer({ min: 1, max: 3 });

/** What may happen to a watched cluster, in any order. */
const step = fc.oneof(
	{ weight: 5, arbitrary: fc.record({ do: fc.constant("put" as const), name, port }) },
	{ weight: 2, arbitrary: fc.record({ do: fc.constant("put bad" as const), name }) },
	{ weight: 2, arbitrary: fc.record({ do: fc.constant("hide" as const), name }) },
	{ weight: 3, arbitrary: fc.record({ do: fc.constant("delete" as const), name }) },
	{
		weight: 8,
		arbitrary: fc.record({
			do: fc.constantFrom(
				"bookmark",
				"tick",
				"forget history",
				"reset",
				"cut in a line",
				"end",
				"garbage",
				"unknown event",
				"error event",
				"gone event",
				"foreign event",
				"delete of unknown",
				"refuse next",
				"gone next",
				"busy next",
				"behind next",
				"lost next",
				"foreign next",
			),
		}),
	},
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

/** Steps, and how many turns of the event loop the reflector gets after each. */
const history = fc.array(fc.tuple(step, fc.constantFrom(0, 0, 1, 1, 3)), { maxLength: 30 });

const refusals: Readonly<Record<string, () => ApiError>> = {
	"refuse next": () => new ApiError("status", "refused", { status: 500 }),
	"gone next": () => new ApiError("expired", "gone", { status: 410 }),
	"busy next": () => new ApiError("status", "busy", { status: 429, retryAfterMs: 1_000 }),
	"behind next": () => new ApiError("version-too-large", "behind", { status: 504 }),
	"lost next": lost,
	"foreign next": () => new ApiError("wrong-kind", "a PodList"),
};

const lines: Readonly<Record<string, string>> = {
	garbage: "this is no JSON\n",
	"unknown event": `${JSON.stringify({ type: "NEW", object: apiService("a") })}\n`,
	"error event": `${JSON.stringify({ type: "ERROR", object: { code: 500, message: "etcd" } })}\n`,
	"gone event": `${JSON.stringify({ type: "ERROR", object: { code: 410, reason: "Expired" } })}\n`,
	"foreign event": `${JSON.stringify({ type: "DELETED", object: { ...apiService("a"), kind: "Pod" } })}\n`,
	"delete of unknown": `${JSON.stringify({ type: "DELETED", object: apiService("unknown") })}\n`,
};

const changes: Readonly<Record<string, (api: MemoryApi, name: string, port: number) => void>> = {
	put: (api, name, port) => {
		api.database.put(apiService(name, { spec: { ports: [{ name: "http", port }] } }));
	},
	"put bad": (api, name) => {
		api.database.put(apiService(name, { spec: { ports: "none" } }));
	},
	hide: (api, name) => {
		const labels = { "service.kubernetes.io/service-proxy-name": "other" };
		api.database.put(apiService(name, { labels }));
	},
	delete: (api, name) => api.database.delete("Service", "shop", name),
	tick: (api) => api.database.tick(),
	"forget history": (api) => api.database.compact(),
};

const ends: Readonly<Record<string, (watch: Watch) => void>> = {
	bookmark: (watch) => watch.bookmark(),
	reset: (watch) => watch.cut(true),
	end: (watch) => watch.end(),
	"cut in a line": (watch) => {
		watch.text('{"type":"ADDED","object":{"metadata":{"na');
		watch.cut(false);
	},
};

function act(api: MemoryApi, step: Step): void {
	const name = "name" in step ? step.name : "";
	changes[step.do]?.(api, name, "port" in step ? step.port : 1);
	const refusal = refusals[step.do];
	if (refusal !== undefined) api.failures.push(refusal());
	for (const watch of api.watches) {
		ends[step.do]?.(watch);
		const line = lines[step.do];
		if (line !== undefined) watch.text(line);
	}
}

function readServices(): ObjectStore<Service> {
	return new ObjectStore({ kind: "Service", admit: one(admitService) }, silentLog);
}

/** The state as a list of the final objects gives it. */
function freshState(objects: readonly ApiObject[]): string {
	const store = readServices();
	for (const object of objects) store.put(object);
	return stateOf(store);
}

function stateOf(store: ObjectStore<Service>): string {
	const services = [...store.objects()].toSorted((a, b) => (a.name < b.name ? -1 : 1));
	const rejected = store.rejected().map(({ object }) => object);
	return JSON.stringify([services, rejected.toSorted((a, b) => (a < b ? -1 : 1))]);
}

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

/** What the reflector made of it all, and what it should have. */
async function run(
	steps: readonly (readonly [Step, number])[],
	streamingLists: boolean,
): Promise<{ readonly bugs: unknown[]; readonly state: string; readonly wanted: string }> {
	const api = new MemoryApi({ streamingLists });
	const store = readServices();
	const bugs: unknown[] = [];
	const clock = { wallMs: () => 0, monotonicMs: () => 0 };
	const resource = servicesResource(undefined);
	const reflector = new Reflector<Service>({
		choose: () => ({ resource, reading: { kind: "Service", admit: one(admitService) } }),
		store,
		transport: api,
		streaming: new StreamingLists({ clock, log: silentLog, retryMs: 1_000 }),
		problems: {
			report: (error) => {
				if (!(error instanceof ApiError)) bugs.push(error);
			},
			clear: () => {},
		},
		onChange: () => {},
		limits: DEFAULT_LIMITS,
		clock,
		random: () => 0.5,
		log: silentLog,
		sleep: turn,
	});
	const abort = new AbortController();
	const running = reflector.run(abort.signal);
	for (const [step, turns] of steps) {
		act(api, step);
		// oxlint-disable-next-line no-await-in-loop -- one after the other is the point
		for (let left = turns; left > 0; left -= 1) await turn();
	}
	const wanted = () =>
		freshState(
			api.database
				.list("services")
				.filter(
					({ metadata }) =>
						!("service.kubernetes.io/service-proxy-name" in (metadata.labels ?? {})),
				),
		);
	for (
		let turns = 0;
		turns < 200 && (!reflector.isSynced || stateOf(store) !== wanted());
		turns += 1
	) {
		// oxlint-disable-next-line no-await-in-loop -- bounded wait
		await turn();
	}
	const state = stateOf(store);
	abort.abort();
	await running;
	api.close();
	return { bugs, state, wanted: wanted() };
}

it("10,000 sequences of events and failures end in the state of a fresh list", async () => {
	const property = fc.asyncProperty(history, fc.boolean(), async (steps, streams) => {
		const { bugs, state, wanted } = await run(steps, streams);
		expect(bugs).toEqual([]);
		expect(state).toBe(wanted);
	});
	await fc.assert(property, { numRuns: 10_000 });
}, 60_000);

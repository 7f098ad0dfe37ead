import { describe, expect, test as it, onTestFinished } from "vitest";
import { admitService } from "../../../../src/services/admit-service.ts";
import type { Service } from "../../../../src/services/objects.ts";
import { silentLog } from "../../../../src/shared/log.ts";
import { ApiError } from "../../../../src/sources/kubernetes/api-errors.ts";
import { DEFAULT_LIMITS, type ReflectorLimits } from "../../../../src/sources/kubernetes/limits.ts";
import { ObjectStore, one } from "../../../../src/sources/kubernetes/object-store.ts";
import { Reflector } from "../../../../src/sources/kubernetes/reflector.ts";
import { servicesResource } from "../../../../src/sources/kubernetes/resources.ts";
import { StreamingLists } from "../../../../src/sources/kubernetes/streaming-lists.ts";
import { apiService } from "../../../kit/fake-api/api-objects.ts";
import { lost, MemoryApi } from "./memory-api.ts";
import { until } from "./source-kit.ts";

function aReflector(
	streamingLists = false,
	failures: readonly ApiError[] = [],
	limits: Partial<ReflectorLimits> = {},
) {
	const api = new MemoryApi({ streamingLists });
	api.failures.push(...failures);
	const reading = { kind: "Service", admit: one(admitService) };
	const store = new ObjectStore<Service>(reading, silentLog);
	const waits: number[] = [];
	let changes = 0;
	let nowMs = 0;
	const clock = { wallMs: () => nowMs, monotonicMs: () => nowMs };
	const reflector = new Reflector<Service>({
		choose: () => ({ resource: servicesResource(undefined), reading }),
		store,
		transport: api,
		streaming: new StreamingLists({ clock, log: silentLog, retryMs: DEFAULT_LIMITS.streamRetryMs }),
		problems: { report: () => {}, clear: () => {} },
		onChange: () => {
			changes += 1;
		},
		limits: { ...DEFAULT_LIMITS, ...limits },
		clock,
		random: () => 0.5,
		log: silentLog,
		sleep: (ms) => {
			waits.push(ms);
			return new Promise((resolve) => setImmediate(resolve));
		},
	});
	const abort = new AbortController();
	const running = reflector.run(abort.signal);
	onTestFinished(async () => {
		abort.abort();
		await running;
		api.close();
	});
	const later = (ms: number) => {
		nowMs += ms;
	};
	return { api, reflector, store, waits, later, changes: () => changes };
}

describe("Reflector", () => {
	it("asks first for a streaming list, then for pages out of the server's cache, then watches", async () => {
		const { api } = aReflector();
		await until("watching", () => api.watches.length === 1);
		const [stream, list, watch] = api.requests.map(({ query }) => query);
		const selectors = {
			labelSelector: "!service.kubernetes.io/service-proxy-name",
			fieldSelector: "spec.clusterIP!=None",
		};
		const watching = { watch: "true", allowWatchBookmarks: "true", timeoutSeconds: "450" };
		expect(stream).toEqual({
			...selectors,
			...watching,
			sendInitialEvents: "true",
			resourceVersionMatch: "NotOlderThan",
		});
		expect(list).toEqual({ ...selectors, limit: "500", resourceVersion: "0" });
		expect(watch).toEqual({ ...selectors, ...watching, resourceVersion: "100" });
		expect(api.requests).toHaveLength(3);
	});

	it("asks for no streaming list again for an hour where it was refused", async () => {
		const { api, later } = aReflector();
		const relist = async () => {
			await until("watching", () => api.watches.length === 1);
			api.database.compact();
			api.close();
			await until("watching again", () => api.watches.length === 1);
			return api.requests.filter(({ query }) => query["sendInitialEvents"] !== undefined).length;
		};
		expect(await relist()).toBe(1);
		later(3_599_999);
		expect(await relist()).toBe(1);
		later(1);
		expect(await relist()).toBe(2);
	});

	it("reads a list that is too big for one answer in pages", async () => {
		const tooBig = new ApiError("too-big", "too big");
		const refused = new ApiError("status", "no streams", { status: 422 });
		const { api, reflector } = aReflector(false, [refused, tooBig]);
		await until("synced", () => reflector.isSynced);
		const lists = api.requests.filter(({ verb }) => verb === "list");
		expect(lists.map(({ query }) => query["resourceVersion"])).toEqual(["0", undefined]);
	});

	it.each([
		["broke", lost(), 2_400],
		[
			"was put off with Retry-After",
			new ApiError("status", "busy", { status: 429, retryAfterMs: 7_000 }),
			7_000,
		],
		["could not be opened", new ApiError("unreachable", "refused"), 2_400],
	])(
		"a watch that %s is opened again from where it was, after a wait (case 3a)",
		async (_how, error, waitMs) => {
			const { api, waits } = aReflector(true);
			api.database.put(apiService("a"));
			await until("watching", () => api.watches.length === 1);
			api.database.put(apiService("b"));
			for (const watch of api.watches) watch.bookmark();
			await until("taken in", () => api.watches.length === 1);
			waits.length = 0;
			api.failures.push(error);
			api.close();
			await until("watching again", () => api.watches.length === 1);
			expect(waits).toEqual([1_200, waitMs]);
			expect(api.requests.at(-1)?.query["resourceVersion"]).toBe("102");
			expect(api.requests.at(-1)?.query["sendInitialEvents"]).toBeUndefined();
		},
	);

	it("asks for short watches after a silent one, until one of them brings a lot", async () => {
		const { api } = aReflector(true, [], { watchIdleMs: 300 });
		const next = async (what: string) => {
			const { length } = api.requests;
			await until(what, () => api.requests.length > length);
			return api.requests.at(-1)?.query["timeoutSeconds"];
		};
		await until("watching", () => api.watches.length === 1);
		expect(api.requests.at(-1)?.query["timeoutSeconds"]).toBe("450");
		expect(await next("after the silence")).toBe("45");
		const end = (changes: number) => {
			for (let left = changes; left > 0; left -= 1) api.database.put(apiService("a"));
			for (const watch of api.watches) {
				watch.bookmark();
				watch.end();
			}
			return next("after its end");
		};
		expect(await end(0)).toBe("45");
		expect(await end(4)).toBe("45");
		expect(await end(5)).toBe("450");
	});

	it("asks for a long time where a list comes first, also after a silence", async () => {
		const { api } = aReflector(true, [], { watchIdleMs: 300 });
		await until("after the silence", () => api.requests.at(-1)?.query["timeoutSeconds"] === "45");
		api.database.compact();
		api.failures.push(new ApiError("expired", "too old", { status: 410 }));
		api.close();
		const isStream = () => api.requests.at(-1)?.query["sendInitialEvents"] !== undefined;
		await until("listed anew", isStream);
		expect(api.requests.at(-1)?.query["timeoutSeconds"]).toBe("450");
	});

	it("tells of a batch of events once", async () => {
		const { api, changes, store } = aReflector(true);
		await until("watching", () => api.watches.length === 1);
		await until("first", () => changes() === 1);
		const lines = Array.from({ length: 50 }, (_, index) =>
			JSON.stringify({ type: "ADDED", object: apiService(`s${index}`) }),
		);
		for (const watch of api.watches) watch.text(`${lines.join("\n")}\n`);
		await until("taken in", () => [...store.objects()].length === 50);
		expect(changes()).toBeLessThanOrEqual(3);
	});

	it("an object made anew under its old name replaces the old one", async () => {
		const { api, store } = aReflector(true);
		api.database.put(apiService("a"));
		await until("there", () => [...store.objects()].length === 1);
		api.database.delete("Service", "shop", "a");
		api.database.put(apiService("a", { spec: { ports: [{ name: "new", port: 81 }] } }));
		await until("replaced", () => [...store.objects()][0]?.ports[0]?.port === 81);
		expect([...store.objects()]).toHaveLength(1);
	});
});

import { describe, expect, test as it, onTestFinished } from "vitest";
import {
	apiNode,
	apiService,
	apiServiceCidr,
	apiSlice,
} from "../../../kit/fake-api/api-objects.ts";
import type { FakeApi } from "../../../kit/fake-api/fake-api.ts";
import type { Fault } from "../../../kit/fake-api/faults.ts";
import { type Running, runSource, serveApi, until } from "./source-kit.ts";

async function aWatchedCluster(limits: Parameters<typeof runSource>[1] = {}) {
	const api = await serveApi();
	api.put(apiService("cart"));
	api.put(apiSlice("cart", ["10.244.1.10"]));
	const running = runSource({ kubeconfig: undefined, master: api.url }, limits);
	await until("synced", () => running.source.isSynced());
	await until("watching", () => api.openWatches.length === 4);
	return { api, running };
}

function isOfServices({ plural }: { readonly plural: string }): boolean {
	return plural === "services";
}

/** "endpointslices nodes services": a resource with two watches is there twice. */
function watchedAt({ openWatches }: FakeApi): string {
	const plurals = openWatches.map(({ plural }) => plural);
	return plurals.toSorted().join(" ");
}

function hasMoved(running: Running): () => boolean {
	return () => running.addresses("shop/cart")[0] === "10.244.1.11";
}

function said(running: Running, message: string) {
	return running.log.lines.filter((line) => line.message === message);
}

describe("a watch that breaks", () => {
	it.each([
		["is reset", true],
		["is closed without its end", false],
	])("goes on from where it was when the connection %s (case 3a)", async (_how, reset) => {
		const { api, running } = await aWatchedCluster();
		api.cutWatches(undefined, reset);
		api.put(apiSlice("cart", ["10.244.1.11"]));
		await until("the endpoint moved", hasMoved(running));
		expect(running.addresses("shop/cart")).toEqual(["10.244.1.11"]);
		expect(running.services()).toEqual(["shop/cart"]);
		expect(api.requests.filter(({ query }) => query["sendInitialEvents"])).toHaveLength(4);
	});

	it("in the middle of a line loses nothing (case 8d)", async () => {
		const { api, running } = await aWatchedCluster();
		api.cutInLine(apiService("late"));
		await until("the object of the cut line", () => running.services().includes("shop/late"));
		expect(running.services()).toEqual(["shop/cart", "shop/late"]);
	});

	it("with an ERROR event goes on from where it was", async () => {
		const { api, running } = await aWatchedCluster();
		for (const watch of api.openWatches) {
			watch.line({ type: "ERROR", object: { kind: "Status", code: 500, message: "etcd is away" } });
			watch.end();
		}
		api.put(apiSlice("cart", ["10.244.1.11"]));
		await until("the endpoint moved", hasMoved(running));
		expect(running.addresses("shop/cart")).toEqual(["10.244.1.11"]);
	});

	it("and cannot go on from its version leads to a fresh list, which prunes what went (case 3f)", async () => {
		const { api, running } = await aWatchedCluster();
		await api.stop();
		api.delete("Service", "shop", "cart");
		api.put(apiService("basket"));
		api.database.compact();
		await api.start();
		await until("pruned", () => !running.services().includes("shop/cart"));
		expect(running.services()).toEqual(["shop/basket"]);
	});

	it("at once again and again is noticed, and leads to a fresh list", async () => {
		const { api, running } = await aWatchedCluster();
		const stop = api.failNext({
			fault: "empty",
			plural: "services",
			verb: "watch",
			times: Number.POSITIVE_INFINITY,
		});
		api.cutWatches("services");
		await until("said", () => running.source.status().problem?.includes("at once") === true);
		const since = api.requests.length;
		await until("listed anew", () =>
			api.requests.slice(since).some(({ plural, query }) => {
				return plural === "services" && query["sendInitialEvents"] !== undefined;
			}),
		);
		stop();
		await until("well again", () => running.source.status().problem === undefined);
		expect(running.services()).toEqual(["shop/cart"]);
	});
});

describe("a server that fails", () => {
	it("with the first list is asked again (case 3b)", async () => {
		const api = await serveApi();
		api.put(apiService("cart"));
		api.failNext({ fault: { status: 500, message: "etcd is away" }, times: 8 });
		const running = runSource({ kubeconfig: undefined, master: api.url });
		await until("synced", () => running.source.isSynced());
		expect(running.services()).toEqual(["shop/cart"]);
	});

	it("with the list after a gap is asked again, and what is known stays meanwhile (case 3c)", async () => {
		const { api, running } = await aWatchedCluster();
		api.options = { ...api.options, streamingLists: false };
		const always = Number.POSITIVE_INFINITY;
		const heal = api.failNext({ fault: { status: 500 }, verb: "list", times: always });
		api.put(apiSlice("cart", ["10.244.1.11"]));
		api.delete("Service", "shop", "cart");
		api.put(apiService("basket"));
		api.database.compact();
		api.cutWatches();
		const since = api.requests.length;
		const lists = () => api.requests.slice(since).filter(({ verb }) => verb === "list");
		await until("lists failed", () => lists().filter(isOfServices).length > 3);
		expect(running.services()).toEqual(["shop/cart"]);
		heal();
		await until("listed", () => running.services().includes("shop/basket"));
		await until("the endpoint moved", hasMoved(running));
		expect(running.services()).toEqual(["shop/basket"]);
	});

	it.each([
		["resets its connections", true],
		["answers 500 after each cut", false],
	])(
		"and %s again and again has one watch for each resource afterwards (case 3h)",
		async (_, cuts) => {
			const { api, running } = await aWatchedCluster();
			const once = watchedAt(api);
			expect(new Set(once.split(" ")).size).toBe(api.openWatches.length);
			const cut = ["endpointslices", "nodes", "services"];
			for (let turn = 0; turn < 10; turn += 1) {
				if (!cuts) api.failNext({ fault: { status: 500 }, times: 3 });
				const since = api.requests.length;
				for (const plural of cut) api.cutWatches(plural, true);
				await until("watching again", () => {
					const anew = new Set(api.requests.slice(since).map(({ plural }) => plural));
					return cut.every((plural) => anew.has(plural)) && watchedAt(api) === once;
				});
			}
			api.put(apiService("late"));
			api.put(apiSlice("cart", ["10.244.1.11"]));
			await until("the endpoint moved", hasMoved(running));
			await until("the Service came", () => running.services().includes("shop/late"));
			expect(watchedAt(api)).toBe(once);
		},
	);

	it("keeps its last state in force, ageing, until it is back", async () => {
		let nowMs = 1_000_000;
		const clock = { wallMs: () => nowMs, monotonicMs: () => performance.now() };
		const { api, running } = await aWatchedCluster({ clock });
		await api.stop();
		nowMs += 3_600_000;
		await until("said", () => running.source.status().problem !== undefined);
		expect(running.services()).toEqual(["shop/cart"]);
		expect(running.source.status()).toMatchObject({
			freshAtMs: 1_000_000,
			problem: `Cannot reach the API server at ${api.url}: connection refused; check that it runs and that the address is right`,
		});
		await api.start();
		await until("well again", () => running.source.status().problem === undefined);
		expect(running.source.status().freshAtMs).toBe(nowMs);
	});

	it("says its trouble once when it begins and once when it is over", async () => {
		const { api, running } = await aWatchedCluster();
		await api.stop();
		await until("many tries", () => said(running, "request failed").length > 12);
		expect(said(running, "cluster source failing")).toHaveLength(1);
		await api.start();
		await until("well again", () => said(running, "cluster source recovered").length === 1);
		expect(said(running, "cluster source failing")).toHaveLength(1);
	});

	it.each<[string, Fault]>([
		["is busy (429)", { status: 429, headers: { "retry-after": "0" } }],
		["resets connections", "reset"],
		["answers with a page of HTML", { status: 200, body: "<html>login</html>" }],
		["answers nothing of use", { status: 503, message: "x\ny" }],
		["answers with a redirect", { status: 302, headers: { location: "http://other/" } }],
	])("and %s while watches are opened is asked again", async (_how, fault) => {
		const { api, running } = await aWatchedCluster();
		api.failNext({ fault, times: 6 });
		api.cutWatches();
		api.put(apiSlice("cart", ["10.244.1.11"]));
		await until("the endpoint moved", hasMoved(running));
		expect(running.addresses("shop/cart")).toEqual(["10.244.1.11"]);
		await until("well again", () => running.source.status().problem === undefined);
	});

	it("and sends a line without end is cut off", async () => {
		const { api, running } = await aWatchedCluster({ limits: { maxEventBytes: 10_000 } });
		api.failNext({ fault: "endless-line", plural: "endpointslices" });
		api.cutWatches();
		api.put(apiSlice("cart", ["10.244.1.11"]));
		await until("the endpoint moved", hasMoved(running));
		expect(running.addresses("shop/cart")).toEqual(["10.244.1.11"]);
	});

	it("and stops to serve the slices' version is asked what it serves", async () => {
		const { api, running } = await aWatchedCluster();
		api.options = { sliceVersions: ["v1beta1"] };
		api.cutWatches();
		api.put(apiSlice("cart", ["10.244.1.11"]));
		await until("the endpoint moved", hasMoved(running));
		expect(running.addresses("shop/cart")).toEqual(["10.244.1.11"]);
		expect(api.requests.at(-1)?.path).toContain("v1beta1");
	});
});

describe("a server that answers with another kind", () => {
	const podList = { kind: "PodList", apiVersion: "v1", metadata: { resourceVersion: "9" } };

	it.each<[string, object, RegExp]>([
		["another list", { ...podList, items: [] }, /with a PodList of v1, wanted a ServiceList of v1/],
		["nothing", {}, /with something without a kind, wanted a ServiceList of v1/],
		["a list without items", { ...podList, kind: "ServiceList" }, /a ServiceList without items/],
	])("%s is refused: the last state stays, and is asked for again", async (_what, body, said) => {
		const { api, running } = await aWatchedCluster();
		api.options = { ...api.options, streamingLists: false };
		api.failNext({
			fault: { status: 200, body: JSON.stringify(body) },
			plural: "services",
			verb: "list",
			times: 3,
		});
		api.database.compact();
		api.cutWatches();
		await until("said", () => said.test(running.source.status().problem ?? ""));
		expect(running.services()).toEqual(["shop/cart"]);
		api.put(apiService("late"));
		await until("followed", () => running.services().includes("shop/late"));
		await until("well again", () => running.source.status().problem === undefined);
		expect(running.services()).toEqual(["shop/cart", "shop/late"]);
	});

	it("is never synced by it", async () => {
		const api = await serveApi({ streamingLists: false });
		api.failNext({
			fault: { status: 200, body: "{}" },
			verb: "list",
			times: Number.POSITIVE_INFINITY,
		});
		const running = runSource({ kubeconfig: undefined, master: api.url });
		await until("tried often", () => api.requests.length > 12);
		expect(running.source.isSynced()).toBe(false);
		expect(said(running, "node object unreadable")).toHaveLength(1);
	});

	it("in a watch is said, and leads to a fresh list", async () => {
		const { api, running } = await aWatchedCluster();
		const pod = { kind: "Pod", apiVersion: "v1", metadata: { name: "p", namespace: "shop" } };
		for (const watch of api.openWatches) {
			if (watch.plural === "services") watch.line({ type: "ADDED", object: pod });
		}
		await until("said", () => said(running, "cluster source failing").length === 1);
		expect(JSON.stringify(said(running, "cluster source failing"))).toContain("a Pod of v1");
		api.put(apiService("late"));
		await until("followed", () => running.services().includes("shop/late"));
		expect(running.services()).toEqual(["shop/cart", "shop/late"]);
		const lists = api.requests.filter(({ query }) => query["sendInitialEvents"] !== undefined);
		expect(lists.filter(({ plural }) => plural === "services")).toHaveLength(2);
	});
});

describe("a server that falls silent", () => {
	const limits = { watchIdleMs: 150, watchHeadersMs: 150, streamIdleMs: 150 };

	it("is noticed, and gone on with when it speaks again (case 3d)", async () => {
		const { api, running } = await aWatchedCluster({ limits });
		api.silence();
		api.put(apiSlice("cart", ["10.244.1.11"]));
		await until("said", () => running.source.status().problem !== undefined);
		expect(running.source.status().problem).toContain("does not answer within 0.15 s");
		api.speak();
		await until("the endpoint moved", hasMoved(running));
		expect(running.addresses("shop/cart")).toEqual(["10.244.1.11"]);
	});

	it("on its watches only is no trouble: they are opened anew from where they were", async () => {
		// Not the limits of other silences: this process may itself be late by that much.
		const { api, running } = await aWatchedCluster({ limits: { watchIdleMs: 150 } });
		for (const watch of api.openWatches) watch.silence();
		api.put(apiSlice("cart", ["10.244.1.11"]));
		await until("the endpoint moved", hasMoved(running));
		expect(running.addresses("shop/cart")).toEqual(["10.244.1.11"]);
		expect(running.source.status().problem).toBeUndefined();
		const anew = api.requests.filter(({ verb, query }) => {
			return verb === "watch" && query["sendInitialEvents"] === undefined;
		});
		// The watch after a silence asks for an early end, whose bookmark moves the version.
		const seconds = anew.map(({ query }) => Number(query["timeoutSeconds"]));
		expect(seconds.some((asked) => asked >= 40 && asked <= 50)).toBe(true);
	});

	it("before the first list is asked by pages instead of a stream (case 3d)", async () => {
		const api = await serveApi();
		api.put(apiService("cart"));
		api.failNext({
			fault: "stall",
			withParameter: "sendInitialEvents",
			times: Number.POSITIVE_INFINITY,
		});
		const running = runSource({ kubeconfig: undefined, master: api.url }, { limits });
		await until("synced", () => running.source.isSynced());
		expect(running.services()).toEqual(["shop/cart"]);
	});
});

describe("a server that takes a streaming list for a plain watch", () => {
	const limits = { streamIdleMs: 200, streamWindowMs: 200 };

	/** Puts objects again and again, so that watches are never silent. */
	function keepBusy(api: FakeApi): void {
		const busy = setInterval(() => {
			api.put(apiService("busy"));
			api.put(apiSlice("busy", ["10.244.1.10"]));
			api.put(apiServiceCidr("kubernetes", ["10.96.0.0/12"]));
			api.put(apiNode("node1"));
		}, 10);
		onTestFinished(() => clearInterval(busy));
	}

	it("is asked by pages, and this is said once", async () => {
		const api = await serveApi({ streamingLists: "ignored" });
		api.put(apiService("cart"));
		keepBusy(api);
		const running = runSource({ kubeconfig: undefined, master: api.url }, { limits });
		await until("synced", () => running.source.isSynced());
		expect(running.services()).toContain("shop/cart");
		const warnings = said(running, "streaming lists do not work here, reading lists in pages");
		expect(warnings).toMatchObject([
			{ level: "warn", fields: { reason: expect.stringContaining("to an end") } },
		]);
		expect(running.source.status().problem).toBeUndefined();
	});

	it("is not asked for streams at each list anew", async () => {
		const api = await serveApi({ streamingLists: "ignored" });
		keepBusy(api);
		const running = runSource({ kubeconfig: undefined, master: api.url }, { limits });
		await until("synced", () => running.source.isSynced());
		const since = api.requests.length;
		api.database.compact();
		api.cutWatches();
		const anew = () => api.requests.slice(since);
		await until("listed", () => anew().some(({ verb }) => verb === "list"));
		expect(anew().filter(({ query }) => query["sendInitialEvents"])).toEqual([]);
	});
});

describe("an object that the API would have refused", () => {
	const bad = apiService("bad", { spec: { ports: [{ name: "http", port: 70_000 }] } });

	it("is said once, stops nothing, and works once corrected (case 8a)", async () => {
		const { api, running } = await aWatchedCluster();
		api.put(bad);
		api.put(apiService("good"));
		await until("the good one", () => running.services().includes("shop/good"));
		api.put(bad);
		api.cutWatches();
		api.put(apiService("better"));
		await until("a better one", () => running.services().includes("shop/better"));
		expect(said(running, "object left out").map(({ fields }) => fields["object"])).toEqual([
			"Service shop/bad",
		]);
		expect(running.source.status().rejected).toMatchObject([{ object: "Service shop/bad" }]);
		api.put(apiService("bad"));
		await until("corrected", () => running.services().includes("shop/bad"));
		expect(running.source.status().rejected).toEqual([]);
		expect(said(running, "object is fine again")).toHaveLength(1);
	});

	it("in the first list is left out of it (case 8b)", async () => {
		const api = await serveApi({ streamingLists: false });
		api.put(bad);
		api.put(apiService("good"));
		const running = runSource({ kubeconfig: undefined, master: api.url });
		await until("synced", () => running.source.isSynced());
		expect(running.services()).toEqual(["shop/good"]);
	});
});

describe("a change handler that throws", () => {
	it("is said once and does not end the source (case 8e)", async () => {
		const api = await serveApi();
		const running = runSource(
			{ kubeconfig: undefined, master: api.url },
			{
				onChange: () => {
					throw new Error("a bug");
				},
			},
		);
		await until("synced", () => running.source.isSynced());
		api.put(apiService("cart"));
		await until("followed", () => running.services().includes("shop/cart"));
		expect(said(running, "change handler failing")).toHaveLength(1);
	});
});

describe("the end", () => {
	it("leaves no connection open and calls nobody any more", async () => {
		const { api, running } = await aWatchedCluster();
		running.abort.abort();
		await running.source.closed();
		const changes = running.changes();
		await until("no watch is open", () => api.openWatches.length === 0);
		api.put(apiService("late"));
		expect(running.changes()).toBe(changes);
	});

	it("comes at once also while the server is away", async () => {
		const { api, running } = await aWatchedCluster();
		await api.stop();
		await until("trying", () => running.source.status().problem !== undefined);
		running.abort.abort();
		await running.source.closed();
		expect(running.source.isSynced()).toBe(true);
	});
});

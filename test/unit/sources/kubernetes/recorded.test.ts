import { readFileSync } from "node:fs";
import { describe, expect, test as it, onTestFinished } from "vitest";
import { type RawRequest, type Route, startRawServer } from "../../../kit/fake-api/raw-server.ts";
import { runSource, until } from "./source-kit.ts";

const folder = new URL("../../../fixtures/recorded/kubernetes-1.20/", import.meta.url);

function recorded(name: string): Uint8Array {
	return readFileSync(new URL(`${name}.http`, folder));
}

const SERVICES = "/api/v1/services";
const SLICES = "/apis/discovery.k8s.io/v1beta1/endpointslices";
const ENDPOINTS = "/api/v1/endpoints";

/** Lists and, the first two times, watches; every other watch finds a quiet cluster. */
const collections: Readonly<Record<string, string>> = {
	[SERVICES]: "services",
	[SLICES]: "endpointslices-v1beta1",
	[ENDPOINTS]: "endpoints",
};

/** What the old server sends, unless a test has another answer. */
function oldServer(
	other: (request: RawRequest) => ReturnType<Route> | undefined = () => undefined,
) {
	return (request: RawRequest): ReturnType<Route> =>
		other(request) ?? refusalOf(request) ?? answerOf(request);
}

function refusalOf({ path, query }: RawRequest): Uint8Array | undefined {
	if (query["sendInitialEvents"] !== undefined) return recorded("watchlist-on-an-old-server");
	if (query["fieldSelector"]?.includes("clusterIP") === true) {
		return recorded("list-field-selector-refused");
	}
	// No list of nodes was recorded; this server has none. ServiceCIDRs came with Kubernetes 1.31.
	const isMissing = /\/v1\/endpointslices|\/nodes|\/servicecidrs/.test(path);
	return isMissing ? recorded("endpointslices-v1-not-served") : undefined;
}

function answerOf({ path, query, nth }: RawRequest): ReturnType<Route> {
	if (path === "/apis/discovery.k8s.io") return recorded("apigroup-discovery");
	const collection = collections[path];
	if (collection === undefined) return "hang";
	if (query["watch"] === undefined) return recorded(`${collection}-list`);
	return nth > 1 ? "hang" : recorded(`${collection}-watch`);
}

async function replay(route: Route, chunkBytes?: number) {
	const server = await startRawServer(route, chunkBytes);
	onTestFinished(() => server.stop());
	const running = runSource({ kubeconfig: undefined, master: server.url });
	return { server, running };
}

/** The watch was answered to its end: the source asks for the next one from its last version. */
function watchedFrom(requests: readonly RawRequest[], path: string): (string | undefined)[] {
	return requests
		.filter((request) => request.path === path && request.query["watch"] !== undefined)
		.filter((request) => request.query["sendInitialEvents"] === undefined)
		.map((request) => request.query["resourceVersion"]);
}

describe("answers recorded from Kubernetes 1.20", () => {
	it.each([1_024, 7])(
		"lists and watches end in the state that the cluster had (%i bytes at a time)",
		async (bytes) => {
			const { server, running } = await replay(oldServer(), bytes);
			await until("both watches are over", () =>
				[SERVICES, SLICES].every((path) => watchedFrom(server.requests, path).length > 1),
			);
			const services = running.services();
			expect(services).toHaveLength(24);
			expect(services).not.toContain("shop/fresh");
			expect(services).toContain("shop/named-port");
			const ext = running.source.snapshot().services.get("shop/ext");
			expect(ext?.ports.map(({ port }) => port)).toEqual([8083]);
			expect(running.addresses("shop/sticky-42pb8")).toEqual([
				"10.244.1.193",
				"10.244.1.194",
				"10.244.1.195",
				"10.244.1.196",
			]);
			expect(running.source.snapshot().endpointSlices.size).toBe(22);
			expect(watchedFrom(server.requests, SERVICES).slice(0, 2)).toEqual(["840", "1120"]);
			expect(watchedFrom(server.requests, SLICES).slice(0, 2)).toEqual(["840", "1114"]);
			expect(running.source.status().rejected).toEqual([]);
		},
	);

	it("a cluster without slices is read by its Endpoints", async () => {
		const { server, running } = await replay(
			oldServer(({ path }) =>
				path === "/apis/discovery.k8s.io" ? recorded("endpointslices-v1-not-served") : undefined,
			),
		);
		await until("the watch is over", () => watchedFrom(server.requests, ENDPOINTS).length > 1);
		expect(running.source.snapshot().endpointSlices.has("shop/fresh-1-ipv4")).toBe(false);
		expect(running.addresses("shop/sticky-1-ipv4")).toEqual([
			"10.244.1.193",
			"10.244.1.194",
			"10.244.1.195",
			"10.244.1.196",
		]);
		expect(watchedFrom(server.requests, ENDPOINTS).slice(0, 2)).toEqual(["840", "1118"]);
	});

	it("the field selector that the server refuses is left out, said once", async () => {
		const { server, running } = await replay(oldServer());
		await until("synced", () => running.source.isSynced());
		const said = running.log.lines.filter(({ message }) => message.includes("field selector"));
		expect(said.map(({ level }) => level)).toEqual(["info"]);
		const lists = server.requests.filter(({ path, query }) => path === SERVICES && !query["watch"]);
		expect(lists.at(-1)?.query).toMatchObject({
			labelSelector: "!service.kubernetes.io/service-proxy-name",
			limit: "500",
			resourceVersion: "0",
		});
		expect(lists.at(-1)?.query["fieldSelector"]).toBeUndefined();
	});

	it("pages are put together", async () => {
		const { server, running } = await replay(
			oldServer(({ path, query }) => {
				if (path !== SERVICES || query["watch"] || query["fieldSelector"]) return undefined;
				return recorded(query["continue"] ? "services-list-page2" : "services-list-page1");
			}),
		);
		// The second page of the recording has a continue token too, and leads to itself.
		await until("a second page", () =>
			server.requests.some(({ query }) => query["continue"] !== undefined),
		);
		const second = server.requests.find(({ query }) => query["continue"] !== undefined);
		expect(second?.query["resourceVersion"]).toBeUndefined();
		expect(running.source.isSynced()).toBe(false);
	});

	it("a continue token that is refused begins the list anew, at the newest version", async () => {
		const { server, running } = await replay(
			oldServer(({ path, query }) => {
				if (path !== SERVICES || query["watch"] || query["fieldSelector"]) return undefined;
				if (query["continue"]) return recorded("list-bad-continue");
				return recorded(query["resourceVersion"] === "0" ? "services-list-page1" : "services-list");
			}),
		);
		await until("synced", () => running.source.isSynced());
		const lists = server.requests.filter(({ path, query }) => path === SERVICES && !query["watch"]);
		expect(lists.at(-1)?.query["resourceVersion"]).toBeUndefined();
	});

	it("a watch from a version that is too old leads to a list at the newest version", async () => {
		const { server, running } = await replay(
			oldServer(({ path, query, nth }) =>
				path === SERVICES && query["watch"] && !query["sendInitialEvents"] && nth < 3
					? recorded("watch-410-too-old")
					: undefined,
			),
		);
		await until("watched again", () => watchedFrom(server.requests, SERVICES).length > 1);
		const lists = server.requests.filter(({ path, query }) => path === SERVICES && !query["watch"]);
		expect(lists.at(-1)?.query["resourceVersion"]).toBeUndefined();
		expect(running.source.isSynced()).toBe(true);
	});

	it("a version that is too large leads to a list at the newest version", async () => {
		const { server, running } = await replay(
			oldServer(({ path, query }) =>
				path === SERVICES && query["resourceVersion"] === "0" && !query["fieldSelector"]
					? recorded("list-too-large-resource-version")
					: undefined,
			),
		);
		await until("synced", () => running.source.isSynced());
		expect(
			server.requests.some(
				({ path, query }) =>
					path === SERVICES && !query["watch"] && query["resourceVersion"] === undefined,
			),
		).toBe(true);
	});

	it("a bad token and a missing permission are said with what to do", async () => {
		const bad = await replay(() => recorded("401"));
		await until("said", () => bad.running.source.status().problem !== undefined);
		expect(bad.running.source.status().problem).toMatch(/does not accept our credentials \(401\)/);
		const denied = await replay(
			oldServer(({ path }) => (path === SERVICES ? recorded("403") : undefined)),
		);
		await until("said", () => denied.running.source.status().problem !== undefined);
		expect(denied.running.source.status().problem).toMatch(
			/denies us "watch" on "services" in API group "" \(403\): grant it as deploy\/rbac.yaml does/,
		);
	});
});

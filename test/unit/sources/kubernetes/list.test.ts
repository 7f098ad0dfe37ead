import { describe, expect, test as it } from "vitest";
import { ApiError } from "../../../../src/sources/kubernetes/api-errors.ts";
import { DEFAULT_LIMITS } from "../../../../src/sources/kubernetes/limits.ts";
import { readList } from "../../../../src/sources/kubernetes/list.ts";
import { servicesResource } from "../../../../src/sources/kubernetes/resources.ts";
import type {
	ApiRequest,
	ApiResponse,
	Transport,
} from "../../../../src/sources/kubernetes/transport.ts";

const asked = {
	server: "https://api",
	verb: "list",
	plural: "services",
	group: "",
	path: "/api/v1/services",
	credentials: "a test",
} as const;

function answering(answer: (request: ApiRequest) => unknown) {
	const requests: ApiRequest[] = [];
	const transport: Transport = {
		get: async (request) => {
			requests.push(request);
			const body = await answer(request);
			if (body instanceof Error) throw body;
			const text = typeof body === "string" ? body : JSON.stringify(body);
			return { asked, body: once(text), cancel: () => {} } satisfies ApiResponse;
		},
	};
	return { requests, transport };
}

/** A page as servers send it. */
function page(items: unknown, metadata: Readonly<Record<string, unknown>> = {}) {
	return { kind: "ServiceList", apiVersion: "v1", metadata, items };
}

const item = (name: string) => ({ metadata: { name } });

async function* once(text: string): AsyncGenerator<Uint8Array> {
	yield await Promise.resolve(Buffer.from(text));
}

async function read(transport: Transport, resourceVersion = "0", limits = {}) {
	const collected: unknown[] = [];
	const complete = await readList(
		{
			transport,
			resource: servicesResource(undefined),
			resourceVersion,
			limits: { ...DEFAULT_LIMITS, ...limits },
			signal: new AbortController().signal,
		},
		() => {
			collected.length = 0;
			return {
				put: (raw) => void collected.push(raw),
				remove: () => {},
				commit: () => true,
			};
		},
	);
	return { collected, resourceVersion: complete.resourceVersion };
}

const tooOld = new ApiError("expired", "too old", { status: 410 });

describe("readList()", () => {
	it("puts pages together; only the first asks for a version", async () => {
		const { requests, transport } = answering(({ query }) => {
			const first = query["continue"] === undefined;
			const more = first ? { continue: "t" } : {};
			return page([item(first ? "a" : "b")], { resourceVersion: "7", ...more });
		});
		expect(await read(transport, "5")).toEqual({
			collected: [item("a"), item("b")],
			resourceVersion: "7",
		});
		expect(requests.map(({ query }) => [query["resourceVersion"], query["continue"]])).toEqual([
			["5", undefined],
			[undefined, "t"],
		]);
		expect(requests.every(({ query }) => query["limit"] === "500")).toBe(true);
	});

	it("takes null for an empty list, as Go writes it", async () => {
		const { transport } = answering(() => page(null, { resourceVersion: "7" }));
		expect(await read(transport)).toEqual({ collected: [], resourceVersion: "7" });
	});

	it("begins anew at the newest version when its token is too old, a few times", async () => {
		let refusals = 2;
		const { requests, transport } = answering(({ query }) => {
			if (query["continue"] === undefined) return page([item("a")], { continue: "t" });
			refusals -= 1;
			return refusals < 0 ? page([item("b")], { resourceVersion: "9" }) : tooOld;
		});
		expect(await read(transport)).toEqual({
			collected: [item("a"), item("b")],
			resourceVersion: "9",
		});
		expect(requests.map(({ query }) => query["resourceVersion"])).toEqual([
			"0",
			undefined,
			undefined,
			undefined,
			undefined,
			undefined,
		]);
	});

	it("gives up on tokens that are too old each time", async () => {
		const { requests, transport } = answering(({ query }) =>
			query["continue"] === undefined ? page([], { continue: "t" }) : tooOld,
		);
		await expect(read(transport)).rejects.toMatchObject({ code: "bad-answer" });
		expect(requests).toHaveLength(8);
	});

	it("gives up on a list without end", async () => {
		const { requests, transport } = answering(() => page([], { continue: "t" }));
		await expect(read(transport)).rejects.toMatchObject({ code: "bad-answer" });
		expect(requests).toHaveLength(2_000);
	});

	it.each([["<html>"], ['"text"'], ["[]"]])("refuses %s", async (body) => {
		const { transport } = answering(() => body);
		await expect(read(transport)).rejects.toMatchObject({
			code: "bad-answer",
			message: expect.stringContaining("check that the address is that of a Kubernetes API server"),
		});
	});

	it.each<[string, unknown]>([
		["something without a kind", {}],
		["a PodList of v1", { ...page([]), kind: "PodList" }],
		["a ServiceList of v2", { ...page([]), apiVersion: "v2" }],
		["a ServiceList of no version", { ...page([]), apiVersion: undefined }],
		["a ServiceList without items", page(undefined)],
		["a ServiceList without items", page({})],
		["a Pod of v1 in its ServiceList", page([item("a"), { kind: "Pod", apiVersion: "v1" }])],
		["a Service of v9 in its ServiceList", page([{ kind: "Service", apiVersion: "v9" }])],
		["a Pod for ged of v1", { ...page([]), kind: "Pod\nfor\u202eged" }],
	])("takes %s for no list of Services", async (got, body) => {
		const { transport } = answering(() => body);
		await expect(read(transport)).rejects.toMatchObject({
			code: "wrong-kind",
			message: `The API server at https://api answers "list" on "services" with ${got}, wanted a ServiceList of v1: check that the address is that of a Kubernetes API server`,
		});
	});

	it("takes items that name the kind that they are", async () => {
		const named = { kind: "Service", apiVersion: "v1", metadata: { name: "a" } };
		const { transport } = answering(() => page([named], { resourceVersion: "7" }));
		expect(await read(transport)).toEqual({ collected: [named], resourceVersion: "7" });
	});

	it("refuses a page that is too big", async () => {
		const { transport } = answering(() => page(["x".repeat(1_000)]));
		await expect(read(transport, "0", { maxPageBytes: 1_000 })).rejects.toMatchObject({
			code: "too-big",
		});
	});
});

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
			return { asked, body: once(text), pinged: false, cancel: () => {} } satisfies ApiResponse;
		},
	};
	return { requests, transport };
}

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
			return { metadata: { resourceVersion: "7", ...more }, items: [first ? 1 : 2] };
		});
		expect(await read(transport, "5")).toEqual({ collected: [1, 2], resourceVersion: "7" });
		expect(requests.map(({ query }) => [query["resourceVersion"], query["continue"]])).toEqual([
			["5", undefined],
			[undefined, "t"],
		]);
		expect(requests.every(({ query }) => query["limit"] === "500")).toBe(true);
	});

	it("takes null for an empty list, as Go writes it", async () => {
		const { transport } = answering(() => ({ metadata: { resourceVersion: "7" }, items: null }));
		expect(await read(transport)).toEqual({ collected: [], resourceVersion: "7" });
	});

	it("begins anew at the newest version when its token is too old, a few times", async () => {
		let refusals = 2;
		const { requests, transport } = answering(({ query }) => {
			if (query["continue"] === undefined) return { metadata: { continue: "t" }, items: [1] };
			refusals -= 1;
			return refusals < 0 ? { metadata: { resourceVersion: "9" }, items: [2] } : tooOld;
		});
		expect(await read(transport)).toEqual({ collected: [1, 2], resourceVersion: "9" });
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
			query["continue"] === undefined ? { metadata: { continue: "t" }, items: [] } : tooOld,
		);
		await expect(read(transport)).rejects.toMatchObject({ code: "bad-answer" });
		expect(requests).toHaveLength(8);
	});

	it("gives up on a list without end", async () => {
		const { requests, transport } = answering(() => ({ metadata: { continue: "t" }, items: [] }));
		await expect(read(transport)).rejects.toMatchObject({ code: "bad-answer" });
		expect(requests).toHaveLength(2_000);
	});

	it.each([["<html>"], ['"text"'], ['{"items":{}}'], ["[]"]])("refuses %s", async (body) => {
		const { transport } = answering(() => body);
		await expect(read(transport)).rejects.toMatchObject({
			code: "bad-answer",
			message: expect.stringContaining("check that the address is that of a Kubernetes API server"),
		});
	});

	it("refuses a page that is too big", async () => {
		const { transport } = answering(() => ({ items: ["x".repeat(1_000)] }));
		await expect(read(transport, "0", { maxPageBytes: 1_000 })).rejects.toMatchObject({
			code: "too-big",
		});
	});
});

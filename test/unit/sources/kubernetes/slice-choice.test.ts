import { Readable } from "node:stream";
import { describe, expect, test as it } from "vitest";
import { silentLog } from "../../../../src/shared/log.ts";
import { ApiError } from "../../../../src/sources/kubernetes/api-errors.ts";
import { chooseSliceVersion } from "../../../../src/sources/kubernetes/discovery.ts";
import { type Resource, slicesResource } from "../../../../src/sources/kubernetes/resources.ts";
import { SliceChoice } from "../../../../src/sources/kubernetes/slice-choice.ts";
import type { Transport } from "../../../../src/sources/kubernetes/transport.ts";
import { MemoryApi } from "./memory-api.ts";

const refuse = () => ({ admitted: false, problems: [] }) as const;
const { signal } = new AbortController();

function aChoice(versions: readonly string[], failure?: ApiError) {
	const transport = new MemoryApi({ sliceVersions: versions });
	const options = { admit: { endpointSlice: refuse, endpoints: refuse }, timeoutMs: 1_000 };
	const choice = new SliceChoice({ transport, ...options, log: silentLog });
	return async (refused?: Resource) => {
		if (failure !== undefined) transport.failures.push(failure);
		return (await choice.choose(refused, signal)).resource;
	};
}

const denied = new ApiError("status", "denied", { status: 403 });

describe("SliceChoice", () => {
	it("takes the best that is served", async () => {
		expect((await aChoice(["v1beta1", "v1"])()).path).toBe(slicesResource("v1").path);
		expect((await aChoice(["v1beta1"])()).path).toBe(slicesResource("v1beta1").path);
		expect((await aChoice(["v2"])()).path).toBe(slicesResource("endpoints").path);
		expect((await aChoice([])()).path).toBe(slicesResource("endpoints").path);
	});

	it("tries one after the other where discovery is not allowed, and then from the start", async () => {
		const choose = aChoice(["v1"], denied);
		const first = await choose();
		const second = await choose(first);
		const third = await choose(second);
		expect([first, second, third].map(({ path }) => path)).toEqual([
			slicesResource("v1").path,
			slicesResource("v1beta1").path,
			slicesResource("endpoints").path,
		]);
		expect((await choose(third)).path).toBe(slicesResource("v1").path);
	});

	it("takes no other answer for a cluster without slices", async () => {
		const transport: Transport = {
			get: ({ verb, resource: { plural, group, path } }) =>
				Promise.resolve({
					asked: { server: "https://api", verb, plural, group, path, credentials: "a test" },
					body: Readable.from([Buffer.from("{}")]),
					cancel: () => {},
				}),
		};
		await expect(chooseSliceVersion(transport, new Set(), 1_000, signal)).rejects.toMatchObject({
			code: "wrong-kind",
			message: expect.stringContaining("something without a kind, wanted an APIGroup of v1"),
		});
	});

	it("chooses nothing where the server cannot be asked", async () => {
		const choose = aChoice(["v1"], new ApiError("status", "etcd", { status: 500 }));
		await expect(choose()).rejects.toThrow("etcd");
	});
});

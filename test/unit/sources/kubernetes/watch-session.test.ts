import { describe, expect, test as it } from "vitest";
import { servicesResource } from "../../../../src/sources/kubernetes/resources.ts";
import { WatchSession } from "../../../../src/sources/kubernetes/watch-session.ts";

const asked = {
	server: "https://api",
	verb: "watch",
	plural: "services",
	group: "",
	path: "/api/v1/services",
	credentials: "a test",
} as const;

function aSession(initial = false) {
	const calls: string[] = [];
	const nameOf = (raw: unknown) => JSON.stringify(raw);
	const sink = {
		put: (raw: unknown) => calls.push(`put ${nameOf(raw)}`) > 0,
		remove: (raw: unknown) => calls.push(`remove ${nameOf(raw)}`) > 0,
	};
	const list = {
		put: (raw: unknown) => void calls.push(`list ${nameOf(raw)}`),
		remove: (raw: unknown) => void calls.push(`unlist ${nameOf(raw)}`),
		commit: () => calls.push("commit") > 0,
	};
	const session = new WatchSession({
		asked,
		resource: servicesResource(undefined),
		sink,
		initial: initial ? list : undefined,
		resourceVersion: initial ? "" : "5",
	});
	return { calls, session };
}

function bookmark(resourceVersion: string, ends = false) {
	const annotations = ends ? { "k8s.io/initial-events-end": "true" } : {};
	return { type: "BOOKMARK", object: { metadata: { resourceVersion, annotations } } };
}

function event(type: string, resourceVersion: string) {
	return { type, object: { metadata: { resourceVersion } } };
}

describe("WatchSession", () => {
	it("hands events on and remembers the version of the last", () => {
		const { calls, session } = aSession();
		expect(session.isCurrent).toBe(true);
		session.take(event("ADDED", "6"));
		session.take(event("MODIFIED", "7"));
		session.take(event("DELETED", "8"));
		expect(calls.map((call) => call.split(" ")[0])).toEqual(["put", "put", "remove"]);
		expect(session.resourceVersion).toBe("8");
		expect(session.takeChanged()).toBe(true);
		expect(session.takeChanged()).toBe(false);
	});

	it("a bookmark moves the version and nothing else", () => {
		const { calls, session } = aSession();
		session.take(bookmark("9"));
		expect(session.resourceVersion).toBe("9");
		expect(calls).toEqual([]);
		expect(session.takeChanged()).toBe(false);
		expect(session.eventCount).toBe(1);
	});

	it("an initial list is committed at its end and not before (classic 9.7.7)", () => {
		const { calls, session } = aSession(true);
		session.take(event("ADDED", "30"));
		session.take(bookmark("31"));
		expect(session.isCurrent).toBe(false);
		expect(session.resourceVersion).toBe("");
		session.take(bookmark("40", true));
		expect(session.isCurrent).toBe(true);
		expect(session.resourceVersion).toBe("40");
		session.take(event("ADDED", "41"));
		expect(calls.map((call) => call.split(" ")[0])).toEqual(["list", "commit", "put"]);
	});

	it("an initial list may change while it is on its way, and counts what it brings", () => {
		const { calls, session } = aSession(true);
		for (const type of ["ADDED", "MODIFIED", "ADDED", "DELETED"]) session.take(event(type, "30"));
		expect(session.listedCount).toBe(2);
		session.take(bookmark("40", true));
		session.take(event("ADDED", "41"));
		expect(session.listedCount).toBe(2);
		expect(calls.map((call) => call.split(" ")[0])).toEqual([
			"list",
			"list",
			"list",
			"unlist",
			"commit",
			"put",
		]);
	});

	it("says which ERROR events call for a fresh list", () => {
		const error = (object: unknown) => () => aSession().session.take({ type: "ERROR", object });
		expect(error({ code: 410 })).toThrow(expect.objectContaining({ code: "expired" }));
		expect(error({ reason: "Expired" })).toThrow(expect.objectContaining({ code: "expired" }));
		expect(
			error({ code: 504, message: "Timeout: Too large resource version: 9, current: 8" }),
		).toThrow(expect.objectContaining({ code: "version-too-large" }));
		expect(error({ code: 500, message: "etcd" })).toThrow(
			expect.objectContaining({ code: "status", status: 500 }),
		);
		expect(error(null)).toThrow(expect.objectContaining({ code: "status" }));
	});

	it.each([
		["ADDED", { kind: "Pod", apiVersion: "v1" }, "a Pod of v1"],
		["MODIFIED", { kind: "Service", apiVersion: "v2" }, "a Service of v2"],
		["DELETED", { kind: "Node" }, "a Node of no version"],
		["BOOKMARK", { kind: "Pod", apiVersion: "v1" }, "a Pod of v1"],
	])("is over at %s of another kind, which changes nothing", (type, kind, got) => {
		const { calls, session } = aSession();
		const object = { ...kind, metadata: { name: "a", resourceVersion: "9" } };
		expect(() => session.take({ type, object })).toThrow(
			expect.objectContaining({
				code: "wrong-kind",
				message: `The API server at https://api answers "watch" on "services" with ${got}, wanted a Service of v1: check that the address is that of a Kubernetes API server`,
			}),
		);
		expect(calls).toEqual([]);
		expect(session.resourceVersion).toBe("5");
		expect(session.eventCount).toBe(0);
	});

	it("takes events of the kind that was asked for", () => {
		const { calls, session } = aSession();
		const object = { kind: "Service", apiVersion: "v1", metadata: { resourceVersion: "9" } };
		session.take({ type: "ADDED", object });
		session.take({ type: "BOOKMARK", object });
		expect(calls).toHaveLength(1);
		expect(session.eventCount).toBe(2);
	});

	it("counts no ERROR and nothing that is no event", () => {
		const { session } = aSession();
		for (const odd of [null, 1, "x", [], {}, { type: 1 }]) session.take(odd);
		expect(() => session.take({ type: "ERROR", object: {} })).toThrow(/status 500/);
		expect(session.eventCount).toBe(0);
	});

	it("takes anything that is no event without a change", () => {
		const { calls, session } = aSession();
		for (const odd of [null, 1, "x", [], {}, { type: 1 }, event("NEW", "99")]) session.take(odd);
		expect(calls).toEqual([]);
		expect(session.resourceVersion).toBe("5");
	});
});

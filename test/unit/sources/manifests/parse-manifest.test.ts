import { describe, expect, it } from "vitest";
import { MAX_OBJECTS, parseManifest } from "../../../../src/sources/manifests/parse-manifest.ts";
import { rawService, rawSlice } from "../../../kit/raw-objects.ts";
import { aService } from "./source-kit.ts";

const parse = (text: string) => parseManifest(text, "node1");
const json = (value: unknown) => parse(JSON.stringify(value));
const names = ({ objects }: ReturnType<typeof parse>) =>
	objects.map(({ kind, key }) => `${kind} ${key}`);
const faults = ({ problems }: ReturnType<typeof parse>) =>
	problems.flatMap((problem) => problem.faults.map(({ text }) => text));

describe("parseManifest()", () => {
	it("reads all documents of YAML, empty ones and comments aside", () => {
		const parsed = parse(`---\n# nothing\n---\n${aService("a")}---\n---\n${aService("b")}...\n`);
		expect(names(parsed)).toEqual(["Service shop/a", "Service shop/b"]);
		expect(parsed.objects.map(({ document }) => document)).toEqual([2, 4]);
		expect(parsed.problems).toEqual([]);
	});

	it("reads nothing out of nothing", () => {
		for (const text of ["", "\n", "---\n", "# only words\n"]) {
			expect(parse(text)).toMatchObject({ objects: [], problems: [] });
		}
	});

	it("reads JSON, a List, typed lists whose items have no kind, and lists in lists", () => {
		const { apiVersion: _version, kind: _kind, ...bare } = rawService();
		const parsed = json({
			apiVersion: "v1",
			kind: "List",
			items: [
				{ apiVersion: "v1", kind: "ServiceList", items: [bare] },
				{ apiVersion: "v1", kind: "List", items: [rawSlice()] },
				{ apiVersion: "v1", kind: "PodList", items: [{}] },
				{ apiVersion: "v1", kind: "List", items: null },
			],
		});
		expect(names(parsed)).toEqual(["Service shop/cart", "EndpointSlice shop/cart-abc"]);
		expect(parsed.problems).toEqual([]);
		expect([...parsed.otherKinds]).toEqual([["PodList v1", 1]]);
	});

	it("reads slices of both versions, and the one Node that is ours", () => {
		const node = { apiVersion: "v1", kind: "Node", metadata: { name: "node1" } };
		const parsed = json({
			apiVersion: "v1",
			kind: "List",
			items: [
				rawSlice({ name: "new" }),
				{ ...rawSlice({ name: "old" }), apiVersion: "discovery.k8s.io/v1beta1" },
				node,
				{ ...node, metadata: { name: "NOT a name" } },
			],
		});
		expect(names(parsed)).toEqual([
			"EndpointSlice shop/new",
			"EndpointSlice shop/old",
			"Node node1",
		]);
		expect(parsed.problems).toEqual([]);
	});

	it("puts objects without a namespace into default", () => {
		for (const namespace of [undefined, null, ""]) {
			const raw = rawService();
			expect(names(json({ ...raw, metadata: { name: "x", namespace } }))).toEqual([
				"Service default/x",
			]);
		}
	});

	it("ignores other kinds, and known kinds of other groups, and counts them", () => {
		const knative = { ...rawService(), apiVersion: "serving.knative.dev/v1" };
		const other = { apiVersion: "apps/v1", kind: "Deployment" };
		const parsed = json({ apiVersion: "v1", kind: "List", items: [other, knative, other] });
		expect(parsed).toMatchObject({ objects: [], problems: [] });
		expect([...parsed.otherKinds]).toEqual([
			["Deployment apps/v1", 2],
			["Service serving.knative.dev/v1", 1],
		]);
	});

	it("takes anchors, aliases and merge keys", () => {
		const text = aService("a").replace("spec:", "spec: &spec");
		const alias = "apiVersion: v1\nkind: Service\nmetadata: {name: b}\nspec:\n  <<: *spec\n";
		const list = `apiVersion: v1\nkind: List\nitems:\n- ${text.replaceAll("\n", "\n  ")}\n- ${alias.replaceAll("\n", "\n  ")}`;
		expect(names(parse(list))).toEqual(["Service shop/a", "Service default/b"]);
	});

	it("says for a bad field in which document, line and object it is, and loses nothing else", () => {
		const parsed = parse(`${aService("a")}---\n${aService("b", 70_000)}---\n${aService("c")}`);
		expect(names(parsed)).toEqual(["Service shop/a", "Service shop/c"]);
		expect(parsed.problems).toEqual([
			{
				document: 2,
				object: "Service shop/b",
				faults: [
					{
						line: 13,
						text: "spec.ports[0].port: wanted an integer in 1..65535, got 70000",
					},
				],
			},
		]);
	});

	it("gives the line of what is around a field that is absent, and of a field in a list", () => {
		const text =
			"apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Service\n  metadata:\n    name: a\n  spec:\n    ports:\n    - port: 80\n";
		expect(parse(text).problems).toMatchObject([
			{ object: "Service default/a", faults: [{ line: 9 }] },
		]);
	});

	it("gives lines for JSON that is laid out", () => {
		const text = JSON.stringify(rawService({ clusterIp: "x" }), undefined, 1);
		const line = text.split("\n").findIndex((each) => each.includes("clusterIPs")) + 2;
		expect(parse(text).problems[0]?.faults[0]?.line).toBe(line);
	});

	it.each([
		["a text", '"root:x:0:0"', "wanted an object, got a string"],
		["a list", "[1]", "wanted an object, got a list"],
		["an object without kind", "{apiVersion: v1}", "kind: wanted a text, got nothing"],
		["a Service without apiVersion", "{kind: Service}", "apiVersion: wanted a text, got nothing"],
		[
			"items that are no list",
			"{apiVersion: v1, kind: List, items: 5}",
			"items: wanted a list, got 5",
		],
		[
			"an item that is no object",
			"{apiVersion: v1, kind: List, items: [x]}",
			"items[0]: wanted an object, got a string",
		],
	])("refuses %s", (_what, text, fault) => {
		expect(faults(parse(text))).toEqual([fault]);
	});

	it("bounds lists in lists", () => {
		let list: object = { apiVersion: "v1", kind: "List", items: [rawService()] };
		for (let depth = 1; depth < 8; depth += 1) {
			list = { apiVersion: "v1", kind: "List", items: [list] };
		}
		expect(json(list).problems).toEqual([]);
		const deeper = json({ apiVersion: "v1", kind: "List", items: [list] });
		expect(faults(deeper)).toEqual(["items: wanted lists nested at most 8 deep, got more"]);
	});

	it("bounds the objects of a file and says so once", () => {
		const items = Array.from({ length: MAX_OBJECTS + 5 }, () => ({ apiVersion: "v1", kind: "X" }));
		const parsed = json({ apiVersion: "v1", kind: "List", items });
		expect(parsed.problems).toHaveLength(1);
		expect(faults(parsed)[0]).toContain(`wanted at most ${MAX_OBJECTS} objects in one file`);
	});

	it("bounds how many refused objects are told", () => {
		const items = Array.from({ length: 300 }, () => 5);
		expect(json({ apiVersion: "v1", kind: "List", items }).problems).toHaveLength(100);
	});
});

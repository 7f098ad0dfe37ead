import { describe, expect, it } from "vitest";
import { combineFiles } from "../../../../src/sources/manifests/combine-files.ts";
import { parseManifest } from "../../../../src/sources/manifests/parse-manifest.ts";
import { rawService, rawSlice } from "../../../kit/raw-objects.ts";

const file = (path: string, ...objects: readonly unknown[]) => ({
	path,
	objects: parseManifest(
		JSON.stringify({ apiVersion: "v1", kind: "List", items: objects }),
		"node1",
	).objects,
});

const ENDPOINTS = {
	apiVersion: "v1",
	kind: "Endpoints",
	metadata: { namespace: "shop", name: "cart" },
	subsets: [{ addresses: [{ ip: "10.244.9.9" }], ports: [{ name: "http", port: 8080 }] }],
};

describe("combineFiles()", () => {
	it("takes the first of objects with one kind and name, also within a file, and names both", () => {
		const { snapshot, duplicates } = combineFiles([
			file("/a", rawService({ clusterIp: "10.96.0.1" }), rawService({ clusterIp: "10.96.0.2" })),
			file("/b", rawService({ clusterIp: "10.96.0.3" }), rawSlice({ name: "cart" })),
		]);
		expect(snapshot.services.get("shop/cart")?.clusterIps).toEqual(["10.96.0.1"]);
		expect(snapshot.endpointSlices.size).toBe(1);
		expect(duplicates).toEqual([
			{ object: "Service shop/cart", used: "/a, document 1", leftOut: "/a, document 1" },
			{ object: "Service shop/cart", used: "/a, document 1", leftOut: "/b, document 1" },
		]);
	});

	it("uses Endpoints for a Service without any slice", () => {
		const { snapshot } = combineFiles([file("/a", rawService(), ENDPOINTS)]);
		expect([...snapshot.endpointSlices]).toMatchObject([
			["shop/endpoints:cart-1-ipv4", { serviceName: "cart", name: "endpoints:cart-1-ipv4" }],
		]);
	});

	it("leaves Endpoints aside where the Service has a slice, whichever comes first", () => {
		for (const objects of [
			[ENDPOINTS, rawSlice()],
			[rawSlice(), ENDPOINTS],
		]) {
			const { snapshot } = combineFiles([file("/a", ...objects)]);
			expect([...snapshot.endpointSlices.keys()]).toEqual(["shop/cart-abc"]);
		}
	});

	it("takes the Node that is ours", () => {
		const node = (name: string) => ({ apiVersion: "v1", kind: "Node", metadata: { name } });
		const { snapshot } = combineFiles([file("/a", node("node2"), node("node1"))]);
		expect(snapshot.node?.name).toBe("node1");
	});
});

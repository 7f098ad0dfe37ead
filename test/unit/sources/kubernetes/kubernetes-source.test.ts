import { describe, expect, test as it } from "vitest";
import { apiEndpoints, apiNode, apiService, apiSlice } from "../../../kit/fake-api/api-objects.ts";
import { runSource, serveApi, until } from "./source-kit.ts";

describe("the Kubernetes source", () => {
	it("reads the cluster by streaming lists and follows it", async () => {
		const api = await serveApi();
		api.put(apiService("cart"));
		api.put(apiSlice("cart", ["10.244.1.10"]));
		api.put(apiNode("node1"));
		const running = runSource({ kubeconfig: undefined, master: api.url });
		await until("synced", () => running.source.isSynced());
		expect(running.services()).toEqual(["shop/cart"]);
		expect(running.addresses("shop/cart")).toEqual(["10.244.1.10"]);
		await until("node", () => running.source.snapshot().node?.name === "node1");
		api.put(apiSlice("cart", ["10.244.1.11"]));
		await until("moved", () => running.addresses("shop/cart")[0] === "10.244.1.11");
		api.delete("Service", "shop", "cart");
		await until("gone", () => running.services().length === 0);
		expect(api.requests.every(({ verb }) => verb !== "list")).toBe(true);
		expect(running.source.status()).toMatchObject({ synced: true, problem: undefined });
	});

	it("asks with kube-proxy's selectors", async () => {
		const api = await serveApi();
		const running = runSource({ kubeconfig: undefined, master: api.url });
		await until("synced", () => running.source.isSynced());
		const queries = Object.fromEntries(api.requests.map(({ plural, query }) => [plural, query]));
		expect(queries["services"]).toMatchObject({
			labelSelector: "!service.kubernetes.io/service-proxy-name",
			fieldSelector: "spec.clusterIP!=None",
		});
		expect(queries["endpointslices"]).toMatchObject({
			labelSelector: "!service.kubernetes.io/headless",
		});
		expect(queries["nodes"]).toMatchObject({ fieldSelector: "metadata.name=node1" });
	});

	it("goes on with Endpoints where slices are not served", async () => {
		const api = await serveApi({ sliceVersions: [], streamingLists: false });
		api.put(apiEndpoints("cart", ["10.244.1.10"]));
		const running = runSource({ kubeconfig: undefined, master: api.url });
		await until("synced", () => running.source.isSynced());
		expect(running.addresses("shop/cart-1-ipv4")).toEqual(["10.244.1.10"]);
	});
});

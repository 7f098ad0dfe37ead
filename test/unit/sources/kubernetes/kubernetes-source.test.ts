import { describe, expect, test as it } from "vitest";
import {
	apiEndpoints,
	apiNode,
	apiService,
	apiServiceCidr,
	apiSlice,
} from "../../../kit/fake-api/api-objects.ts";
import { runSource, serveApi, until } from "./source-kit.ts";

describe("the Kubernetes source", () => {
	it("reads the cluster by streaming lists and follows it (classic 9.7.7)", async () => {
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

	it("asks with kube-proxy's selectors (classic 9.8.8)", async () => {
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

	it("knows the cluster's ranges of Services and follows them", async () => {
		const api = await serveApi();
		api.put(apiServiceCidr("kubernetes", ["10.96.0.0/12", "fd10:96::/112"]));
		const running = runSource({ kubeconfig: undefined, master: api.url });
		await until("synced", () => running.source.isSynced());
		const ranges = () => [...running.source.snapshot().serviceCidrs.values()];
		expect(ranges()).toEqual([{ name: "kubernetes", ranges: ["10.96.0.0/12", "fd10:96::/112"] }]);
		api.put(apiServiceCidr("more", ["10.200.0.0/16"]));
		await until("more", () => ranges().length === 2);
		api.delete("ServiceCIDR", "", "kubernetes");
		await until("gone", () => ranges().length === 1);
	});

	it("reads older ServiceCIDRs where v1 is not served", async () => {
		const api = await serveApi({ serviceCidrVersions: ["v1beta1"] });
		api.put(apiServiceCidr("kubernetes", ["10.96.0.0/12"]));
		const running = runSource({ kubeconfig: undefined, master: api.url });
		await until("read", () => running.source.snapshot().serviceCidrs.size === 1);
		expect(running.log.lines.map(({ message }) => message).join()).not.toContain("ServiceCIDR");
	});

	it("is in no trouble without ServiceCIDRs, and says so once", async () => {
		const api = await serveApi({ serviceCidrVersions: [] });
		const running = runSource({ kubeconfig: undefined, master: api.url });
		await until("synced", () => running.source.isSynced());
		const asked = () => api.requests.filter(({ plural }) => plural === "servicecidrs");
		await until("asked again and again", () => asked().length > 6);
		expect(running.source.status().problem).toBeUndefined();
		const said = running.log.lines.filter(({ message }) => message.includes("ServiceCIDR"));
		expect(said).toMatchObject([{ level: "info", message: "cluster has no ServiceCIDRs" }]);
	});

	it("warns once where it may not read ServiceCIDRs, and names the permission", async () => {
		const api = await serveApi();
		api.failNext({
			fault: { status: 403, reason: "Forbidden", message: "servicecidrs is forbidden" },
			plural: "servicecidrs",
			times: Number.POSITIVE_INFINITY,
		});
		const running = runSource({ kubeconfig: undefined, master: api.url });
		await until("synced", () => running.source.isSynced());
		const asked = () => api.requests.filter(({ plural }) => plural === "servicecidrs");
		await until("asked again and again", () => asked().length > 6);
		const said = running.log.lines.filter(({ message }) => message.includes("ServiceCIDR"));
		expect(said).toMatchObject([{ level: "warn", message: "ServiceCIDRs are unreadable" }]);
		expect(JSON.stringify(said)).toMatch(/servicecidrs.*networking\.k8s\.io/);
		expect(running.source.status().problem).toBeUndefined();
	});

	it("goes on with Endpoints where slices are not served", async () => {
		const api = await serveApi({ sliceVersions: [], streamingLists: false });
		api.put(apiEndpoints("cart", ["10.244.1.10"]));
		const running = runSource({ kubeconfig: undefined, master: api.url });
		await until("synced", () => running.source.isSynced());
		expect(running.addresses("shop/cart-1-ipv4")).toEqual(["10.244.1.10"]);
	});
});

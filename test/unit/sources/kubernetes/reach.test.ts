import { createServer } from "node:http";
import { connect } from "node:net";
import { describe, expect, test as it, onTestFinished } from "vitest";
import { apiNode, apiService, apiSlice } from "../../../kit/fake-api/api-objects.ts";
import { CertificateAuthority } from "../../../kit/fake-api/certificates.ts";
import { aFolder, kubeconfigFor } from "../../../kit/kubeconfigs.ts";
import { type Running, runSource, serveApi, until } from "./source-kit.ts";

async function problemOf(running: Running): Promise<string> {
	await until("said", () => running.source.status().problem !== undefined);
	return running.source.status().problem ?? "";
}

function messages(running: Running, level: string): string[] {
	return running.log.lines.filter((line) => line.level === level).map(({ message }) => message);
}

describe("an API server that cannot be reached", () => {
	it("because of its name", async () => {
		const running = runSource({ kubeconfig: undefined, master: "http://api.invalid:6443" });
		expect(await problemOf(running)).toMatch(
			/^Cannot reach the API server at http:\/\/api.invalid:6443: (no such host name; check the address, or DNS|its name cannot be looked up; check DNS) on this node$/,
		);
	});

	it("because its address is a Service that nobody serves: the way out is said (case 22d)", async () => {
		const running = runSource(
			{ kubeconfig: undefined, master: "http://127.0.0.1:1" },
			{ env: { KUBERNETES_SERVICE_HOST: "127.0.0.1", KUBERNETES_SERVICE_PORT: "1" } },
		);
		expect(await problemOf(running)).toBe(
			"Cannot reach the API server at http://127.0.0.1:1: connection refused; this address is a Service that only a running service proxy makes reachable, so give the API server's own address with --master https://HOST:6443 or in a kubeconfig",
		);
	});

	it("directly is reached through the kubeconfig's proxy", async () => {
		const authority = new CertificateAuthority();
		const tls = authority.issue({ commonName: "api", names: ["IP:127.0.0.1"] });
		const api = await serveApi({ tls });
		const proxy = createServer().listen(0, "127.0.0.1");
		let tunnels = 0;
		proxy.on("connect", (request, socket) => {
			tunnels += 1;
			const upstream = connect(Number(request.url?.split(":")[1]), "127.0.0.1", () => {
				socket.write("HTTP/1.1 200 OK\r\n\r\n");
				upstream.pipe(socket);
				socket.pipe(upstream);
			});
			upstream.on("error", () => socket.destroy());
			socket.on("error", () => upstream.destroy());
		});
		onTestFinished(() => {
			proxy.close();
		});
		await until("listening", () => proxy.listening);
		const address = proxy.address();
		const port = typeof address === "object" ? address?.port : 0;
		const kubeconfig = kubeconfigFor(await aFolder(), api.url, {
			ca: authority.cert,
			cluster: { "proxy-url": `http://127.0.0.1:${port}` },
		});
		const running = runSource({ kubeconfig, master: undefined });
		await until("synced", () => running.source.isSynced());
		expect(tunnels).toBeGreaterThan(0);
	});
});

describe("this node's Node", () => {
	it("that is not there is no more than a warning", async () => {
		const api = await serveApi();
		api.put(apiNode("node2"));
		const running = runSource({ kubeconfig: undefined, master: api.url });
		await until("synced", () => running.source.isSynced());
		await until("said", () =>
			messages(running, "warn").some((text) => text.includes("no node of this name")),
		);
		expect(running.source.status().problem).toBeUndefined();
		api.put(apiNode("node1"));
		await until("found", () => running.source.snapshot().node !== undefined);
		expect(running.source.snapshot().node?.zone).toBe("z1");
	});

	it("that we may not read is no more than a warning, said once", async () => {
		const api = await serveApi();
		api.put(apiService("cart"));
		api.failNext({
			fault: { status: 403, reason: "Forbidden", message: "nodes is forbidden" },
			plural: "nodes",
			times: Number.POSITIVE_INFINITY,
		});
		const running = runSource({ kubeconfig: undefined, master: api.url });
		await until("synced", () => running.source.isSynced());
		await until(
			"many tries",
			() => api.requests.filter(({ plural }) => plural === "nodes").length > 3,
		);
		expect(
			messages(running, "warn").filter((text) => text === "node object unreadable"),
		).toHaveLength(1);
		expect(running.source.status().problem).toBeUndefined();
		expect(running.services()).toEqual(["shop/cart"]);
	});
});

describe("this node's Node that is slow to come", () => {
	it("is waited for a little, and no longer", async () => {
		const api = await serveApi();
		api.put(apiService("cart"));
		api.failNext({ fault: "hang", plural: "nodes", times: Number.POSITIVE_INFINITY });
		const running = runSource(
			{ kubeconfig: undefined, master: api.url },
			{ patienceMs: 100, limits: { streamIdleMs: 60_000 } },
		);
		await until("services are there", () => running.services().length === 1);
		const changes = running.changes();
		await until("synced", () => running.source.isSynced());
		expect(running.changes()).toBeGreaterThan(changes);
	});
});

describe("a server that redirects", () => {
	it("is not followed: our credentials are for nobody else", async () => {
		const other = await serveApi();
		const api = await serveApi();
		const fault = { status: 307, headers: { location: other.url } };
		api.failNext({ fault, times: Number.POSITIVE_INFINITY });
		const running = runSource({ kubeconfig: undefined, master: api.url });
		expect(await problemOf(running)).toContain(
			"answers with a redirect (307), which is not followed",
		);
		expect(other.requests).toEqual([]);
	});
});

describe("with --service-proxy-name", () => {
	it("only Services with that label are read", async () => {
		const api = await serveApi();
		const labels = { "service.kubernetes.io/service-proxy-name": "lens" };
		api.put(apiService("seen", { labels }));
		api.put(apiService("unseen"));
		api.put(apiSlice("seen", ["10.244.1.10"]));
		const running = runSource(
			{ kubeconfig: undefined, master: api.url },
			{ serviceProxyName: "lens" },
		);
		await until("synced", () => running.source.isSynced());
		expect(running.services()).toEqual(["shop/seen"]);
		expect(running.addresses("shop/seen")).toEqual(["10.244.1.10"]);
	});
});

describe("a missing permission", () => {
	it("is named with verb, resource and group", async () => {
		const api = await serveApi({ streamingLists: false });
		const denied = { status: 403, reason: "Forbidden", message: `User "x" cannot` };
		api.failNext({
			fault: denied,
			plural: "endpointslices",
			verb: "list",
			times: Number.POSITIVE_INFINITY,
		});
		const running = runSource({ kubeconfig: undefined, master: api.url });
		expect(await problemOf(running)).toBe(
			`The API server at ${api.url} denies us "list" on "endpointslices" in API group "discovery.k8s.io" (403): grant it as deploy/rbac.yaml does, or use other credentials than --master; it says: User "x" cannot`,
		);
		expect(running.source.isSynced()).toBe(false);
	});
});

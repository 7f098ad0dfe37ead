import { describe, expect, test as it } from "vitest";
import { apiService, apiSlice } from "../../../kit/fake-api/api-objects.ts";
import {
	CertificateAuthority,
	type CertificateOptions,
} from "../../../kit/fake-api/certificates.ts";
import type { FakeApi } from "../../../kit/fake-api/fake-api.ts";
import { aFolder, kubeconfigFor } from "../../../kit/kubeconfigs.ts";
import { runSource, serveApi, until } from "./source-kit.ts";

const authority = new CertificateAuthority();
const forLoopback = { commonName: "api", names: ["IP:127.0.0.1", "DNS:localhost"] };

async function serveTls(options: CertificateOptions = forLoopback, http2 = true): Promise<FakeApi> {
	const api = await serveApi({ tls: authority.issue(options), http2 });
	api.put(apiService("cart"));
	return api;
}

async function problemWith(api: { readonly url: string }, ca = authority.cert): Promise<string> {
	const kubeconfig = kubeconfigFor(await aFolder(), api.url, { ca });
	const running = runSource({ kubeconfig, master: undefined });
	await until("said", () => running.source.status().problem !== undefined);
	return running.source.status().problem ?? "";
}

describe("an API server with TLS", () => {
	it("is spoken to over one HTTP/2 connection", async () => {
		const api = await serveTls();
		const kubeconfig = kubeconfigFor(await aFolder(), api.url, { ca: authority.cert });
		const running = runSource({ kubeconfig, master: undefined });
		await until("synced", () => running.source.isSynced());
		await until("watching", () => api.openWatches.length === 4);
		api.cutWatches();
		api.put(apiSlice("cart", ["10.244.1.11"]));
		await until("followed", () => running.addresses("shop/cart").length === 1);
		expect(new Set(api.requests.map(({ httpVersion }) => httpVersion))).toEqual(new Set(["2.0"]));
		expect(api.connections).toBe(1);
	});

	it("without HTTP/2 keeps its connections", async () => {
		const api = await serveTls(forLoopback, false);
		const kubeconfig = kubeconfigFor(await aFolder(), api.url, { ca: authority.cert });
		const running = runSource({ kubeconfig, master: undefined });
		await until("synced", () => running.source.isSynced());
		for (let round = 1; round <= 10; round += 1) {
			// oxlint-disable-next-line no-await-in-loop -- one after the other
			await until("watching", () => api.requests.length >= 1 + 4 * round);
			api.endWatches();
		}
		await until("watching again", () => api.requests.length >= 45);
		// One for each watch; another where one asked again before the end of its last answer was read.
		expect(api.connections).toBeLessThan(9);
	});

	it("that restarts is connected to again", async () => {
		const api = await serveTls();
		const kubeconfig = kubeconfigFor(await aFolder(), api.url, { ca: authority.cert });
		const running = runSource({ kubeconfig, master: undefined });
		await until("synced", () => running.source.isSynced());
		await api.stop();
		api.put(apiService("late"));
		await until("said", () => running.source.status().problem !== undefined);
		await api.start();
		await until("followed", () => running.services().includes("shop/late"));
		expect(running.services()).toEqual(["shop/cart", "shop/late"]);
	});

	it("whose certificate another CA signed is not trusted, and that is said", async () => {
		const api = await serveTls();
		const problem = await problemWith(api, new CertificateAuthority("other CA").cert);
		expect(problem).toMatch(/^Cannot trust the API server at https:.*not signed by the CA/);
		expect(api.requests).toEqual([]);
	});

	it("whose certificate has expired is not trusted, and that is said", async () => {
		const notAfter = new Date(Date.now() - 1_000);
		const api = await serveTls({ ...forLoopback, notAfter });
		expect(await problemWith(api)).toContain("a certificate has expired");
	});

	it("whose certificate is for another name is not trusted, and that is said", async () => {
		const api = await serveTls({ commonName: "api", names: ["DNS:api.example"] });
		expect(await problemWith(api)).toContain("its certificate is for other names");
	});

	it("is trusted by the name that tls-server-name gives", async () => {
		const api = await serveTls({ commonName: "api", names: ["DNS:api.example"] });
		const kubeconfig = kubeconfigFor(await aFolder(), api.url, {
			ca: authority.cert,
			cluster: { "tls-server-name": "api.example" },
		});
		const running = runSource({ kubeconfig, master: undefined });
		await until("synced", () => running.source.isSynced());
		expect(running.services()).toEqual(["shop/cart"]);
	});

	it("is not checked with insecure-skip-tls-verify, and that is said", async () => {
		const api = await serveTls({ commonName: "api" });
		const kubeconfig = kubeconfigFor(await aFolder(), api.url, {
			cluster: { "insecure-skip-tls-verify": true },
		});
		const running = runSource({ kubeconfig, master: undefined });
		await until("synced", () => running.source.isSynced());
		expect(running.log.lines.map(({ message }) => message)).toContain(
			"the API server's certificate is not verified",
		);
	});

	it("behind an http:// address is recognised", async () => {
		const api = await serveTls();
		const running = runSource({
			kubeconfig: undefined,
			master: api.url.replace("https:", "http:"),
		});
		await until("said", () => running.source.status().problem !== undefined);
		expect(running.source.status().problem).toMatch(/broke|speaks TLS/);
	});

	it("that speaks no TLS is recognised", async () => {
		const api = await serveApi();
		const problem = await problemWith({ url: api.url.replace("http:", "https:") });
		expect(problem).toContain("what answers there is not TLS");
	});

	it("with a new CA is trusted as soon as the file has it", async () => {
		const api = await serveTls();
		const folder = await aFolder();
		const old = new CertificateAuthority("old CA").cert;
		const kubeconfig = kubeconfigFor(folder, api.url, { ca: old });
		const running = runSource({ kubeconfig, master: undefined });
		await until("said", () => running.source.status().problem !== undefined);
		kubeconfigFor(folder, api.url, { ca: authority.cert });
		await until("synced", () => running.source.isSynced());
		expect(running.services()).toEqual(["shop/cart"]);
	});
});

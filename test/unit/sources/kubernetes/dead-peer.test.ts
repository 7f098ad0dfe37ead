import { connect, createServer, type Socket } from "node:net";
import { describe, expect, test as it, onTestFinished } from "vitest";
import { apiService } from "../../../kit/fake-api/api-objects.ts";
import { CertificateAuthority } from "../../../kit/fake-api/certificates.ts";
import { aFolder, kubeconfigFor } from "../../../kit/kubeconfigs.ts";
import { runSource, serveApi, until } from "./source-kit.ts";

/** A wire between client and server that can be cut without either being told. */
async function aWire(port: number) {
	const sockets: Socket[] = [];
	const server = createServer((client) => {
		const upstream = connect(port, "127.0.0.1");
		for (const socket of [client, upstream]) socket.on("error", () => {});
		client.pipe(upstream);
		upstream.pipe(client);
		sockets.push(client, upstream);
	});
	await new Promise<void>((resolve) => {
		server.listen(0, "127.0.0.1", resolve);
	});
	onTestFinished(() => {
		for (const socket of sockets) socket.destroy();
		server.close();
	});
	const address = server.address();
	return {
		port: typeof address === "object" ? (address?.port ?? 0) : 0,
		/** What was connected stays so, and no byte passes any more. */
		die: () => {
			for (const socket of sockets) {
				socket.unpipe();
				socket.pause();
			}
		},
	};
}

describe("a peer that is there and sends nothing on its watches", () => {
	it("is noticed over HTTP/2 by the idle bound, although it answers pings", async () => {
		const authority = new CertificateAuthority();
		const tls = authority.issue({ commonName: "api", names: ["IP:127.0.0.1"] });
		const api = await serveApi({ tls, http2: true });
		const kubeconfig = kubeconfigFor(await aFolder(), api.url, { ca: authority.cert });
		const running = runSource({ kubeconfig, master: undefined }, { limits: { watchIdleMs: 200 } });
		await until("watching", () => running.source.isSynced() && api.openWatches.length === 4);
		for (const watch of api.openWatches) watch.silence();
		api.put(apiService("late"));
		await until("followed", () => running.services().includes("shop/late"));
		expect(running.source.status().problem).toBeUndefined();
		expect(api.connections).toBe(1);
	});
});

describe("a peer that is gone without a word", () => {
	it("is noticed over HTTP/2 by pings, long before the idle bound", async () => {
		const authority = new CertificateAuthority();
		const tls = authority.issue({ commonName: "api", names: ["IP:127.0.0.1"] });
		const api = await serveApi({ tls, http2: true });
		const wire = await aWire(api.port);
		const url = `https://127.0.0.1:${wire.port}`;
		const kubeconfig = kubeconfigFor(await aFolder(), url, { ca: authority.cert });
		const running = runSource(
			{ kubeconfig, master: undefined },
			{
				timing: { pingMs: 100 },
				limits: { watchIdleMs: 600_000, nodeWatchIdleMs: 600_000, watchHeadersMs: 600_000 },
			},
		);
		await until("watching", () => running.source.isSynced() && api.openWatches.length === 4);
		wire.die();
		api.put(apiService("late"));
		await until("followed", () => running.services().includes("shop/late"));
		expect(running.source.status().problem).toBeUndefined();
	});
});

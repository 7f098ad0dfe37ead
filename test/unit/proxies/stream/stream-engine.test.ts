import { describe, expect, test as it, onTestFinished } from "vitest";
import { DROP_REASONS } from "../../../../src/proxies/drop-reason.ts";
import type { LiveConnection } from "../../../../src/proxies/engine.ts";
import {
	createStreamEngine,
	type StreamEngineOptions,
} from "../../../../src/proxies/stream/stream-engine.ts";
import { silentLog } from "../../../../src/shared/log.ts";
import { aUdpServicePort, LabClient, LabEndpoint } from "../../../conformance/udp-lab.ts";
import { anAddress, aServicePort } from "../builders.ts";

function anEngine(overrides: Partial<StreamEngineOptions> = {}) {
	const engine = createStreamEngine({
		bindAddress: undefined,
		udpAddress: () => undefined,
		portRange: undefined,
		dialTimeoutsMs: [250],
		halfCloseIdleMs: 1000,
		udp: { idleMs: 1000, firstAnswerMs: 1000, maxFlows: 10 },
		preferredPorts: new Map(),
		hooks: { onConnectionStart: () => {}, onConnectionEnd: () => {}, onCounted: () => {} },
		log: silentLog,
		...overrides,
	});
	onTestFinished(() => engine.close());
	return engine;
}

describe("createStreamEngine()", () => {
	it("listens on the bind address only, and says why it cannot for the other family (classic 9.7.5)", async () => {
		const engine = anEngine({ bindAddress: anAddress("127.0.0.1") });
		const { bindings, problems } = await engine.reconcile([
			aServicePort(),
			aServicePort({ protocol: "udp" }),
			aServicePort({ family: "ipv6" }),
		]);
		expect(bindings.map(({ protocol, listenAddress }) => [protocol, listenAddress])).toEqual([
			["tcp", "127.0.0.1"],
			["udp", "127.0.0.1"],
		]);
		expect(problems).toMatchObject([{ error: { code: "BIND_ADDRESS_FAMILY", retriable: false } }]);
	});

	it("binds UDP to the node's address of the family, and follows it when it changes", async () => {
		let address = "127.0.0.1";
		const engine = anEngine({ udpAddress: () => anAddress(address) });
		const wanted = [aServicePort(), aServicePort({ protocol: "udp" })];
		const before = await engine.reconcile(wanted);
		address = "127.0.0.2";
		const after = await engine.reconcile(wanted);
		expect(before.bindings.map(({ listenAddress }) => listenAddress)).toEqual([
			undefined,
			"127.0.0.1",
		]);
		expect(after.bindings.map(({ listenAddress }) => listenAddress)).toEqual([
			undefined,
			"127.0.0.2",
		]);
		expect(after.bindings[0]?.proxyPort).toBe(before.bindings[0]?.proxyPort);
		expect(engine.stats().listeners).toBe(3);
		engine.retire(new Set());
		expect(engine.stats().listeners).toBe(2);
	});

	it("keeps UDP clients with their endpoints when the node's address changes", async () => {
		const open = async (name: string) =>
			await LabEndpoint.open({ answer: (_datagram, reply) => reply(name) });
		const servers = [await open("a"), await open("b")];
		onTestFinished(() => {
			for (const server of servers) server.close();
		});
		let address = "127.0.0.1";
		// Each rotation starts with the first endpoint.
		const engine = anEngine({ udpAddress: () => anAddress(address), random: () => 0 });
		const wanted = aUdpServicePort({
			endpoints: servers.map(({ endpoint }) => endpoint),
			sessionAffinity: { type: "ClientIP", timeoutMs: 10_800_000 },
		});
		const ask = async (from: string) => {
			const { bindings } = await engine.reconcile([wanted]);
			const client = await LabClient.open(
				{ address, port: bindings[0]?.proxyPort ?? 0 },
				{ address: from },
			);
			onTestFinished(() => client.close());
			return await client.askText("who?");
		};
		const first = await ask("127.0.0.1");
		const second = await ask("127.0.0.3");
		expect(new Set([first, second]).size).toBe(2);
		address = "127.0.0.2";
		// In the other order: a rotation that began anew would change them over.
		expect(await ask("127.0.0.3")).toBe(second);
		expect(await ask("127.0.0.1")).toBe(first);
	});

	it("has nothing to tell before it is used", async () => {
		const engine = anEngine();
		expect(engine.name).toBe("stream");
		expect(await engine.connections()).toEqual<LiveConnection[]>([]);
		expect(await engine.failingEndpoints()).toEqual(new Map());
		expect(engine.stats()).toEqual({
			listeners: 0,
			tcpConnections: 0,
			waitingConnections: 0,
			udpFlows: 0,
			droppedDatagrams: 0,
			droppedDatagramsByReason: new Map(DROP_REASONS.map((reason) => [reason, 0])),
			evictedFlows: 0,
			affinityEvictions: 0,
			workers: 0,
			ioUringWorkers: 0,
			workerFailures: 0,
			lastWorkerFailure: undefined,
			overloadRefusals: 0,
			acceptPaused: false,
		});
	});
});

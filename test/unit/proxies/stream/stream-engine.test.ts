import { describe, expect, test as it, onTestFinished } from "vitest";
import { DROP_REASONS } from "../../../../src/proxies/drop-reason.ts";
import type { LiveConnection } from "../../../../src/proxies/engine.ts";
import {
	createStreamEngine,
	type StreamEngineOptions,
} from "../../../../src/proxies/stream/stream-engine.ts";
import { silentLog } from "../../../../src/shared/log.ts";
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
		hooks: { onConnectionStart: () => {}, onConnectionEnd: () => {} },
		log: silentLog,
		...overrides,
	});
	onTestFinished(() => engine.close());
	return engine;
}

describe("createStreamEngine()", () => {
	it("listens on the bind address only, and says why it cannot for the other family", async () => {
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

	it("has nothing to tell before it is used", () => {
		const engine = anEngine();
		expect(engine.name).toBe("stream");
		expect(engine.connections()).toEqual<LiveConnection[]>([]);
		expect(engine.failingEndpoints()).toEqual(new Map());
		expect(engine.stats()).toEqual({
			listeners: 0,
			tcpConnections: 0,
			waitingConnections: 0,
			udpFlows: 0,
			droppedDatagrams: 0,
			droppedDatagramsByReason: new Map(DROP_REASONS.map((reason) => [reason, 0])),
			evictedFlows: 0,
			affinityEvictions: 0,
			overloadRefusals: 0,
			acceptPaused: false,
		});
	});
});

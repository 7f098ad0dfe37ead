import { afterEach, expect, test as it } from "vitest";
import type { RelayEngine } from "../../../../src/proxies/engine.ts";
import { createSyscallEngine } from "../../../../src/proxies/syscall/syscall-engine.ts";
import { silentLog } from "../../../../src/shared/log.ts";
import {
	aUdpServicePort,
	boundSocket,
	Closer,
	LabEndpoint,
	until,
} from "../../../conformance/udp-lab.ts";

const closer = new Closer();
let engine: RelayEngine | undefined;

afterEach(async () => {
	closer.close();
	await engine?.close();
});

it("two addresses of the node that one client port asks are two flows, each answered from its own", async () => {
	const endpoints = await Promise.all(
		["one", "two"].map(async (name) =>
			closer.add(await LabEndpoint.open({ answer: (_datagram, reply) => reply(name) })),
		),
	);
	engine = createSyscallEngine({
		bindAddress: undefined,
		portRange: undefined,
		dialTimeoutsMs: [250],
		halfCloseIdleMs: 60_000,
		udp: { idleMs: 30_000, firstAnswerMs: 5_000, maxFlows: 100 },
		preferredPorts: new Map(),
		hooks: { onConnectionStart: () => {}, onConnectionEnd: () => {}, onCounted: () => {} },
		log: silentLog,
		random: () => 0,
		workers: 1,
	});
	const servicePort = aUdpServicePort({ endpoints: endpoints.map(({ endpoint }) => endpoint) });
	const { bindings } = await engine.reconcile([servicePort]);
	expect(bindings).toMatchObject([{ listenAddress: undefined }]);
	const port = bindings[0]?.proxyPort;
	const asker = closer.add(await boundSocket("127.0.0.1"));
	const answers: { readonly by: string; readonly from: string }[] = [];
	asker.on("message", (by, { address, port: from }) => {
		answers.push({ by: String(by), from: `${address}:${from}` });
	});
	const addresses = ["127.0.0.3", "127.0.0.4", "127.0.0.3", "127.0.0.4"];
	for (const address of addresses) {
		const count = answers.length;
		asker.send("who?", port, address);
		await until(() => answers.length > count, `${address} has answered`);
	}
	expect(answers.map(({ from }) => from)).toEqual(addresses.map((each) => `${each}:${port}`));
	// In turn, each flow with an endpoint of its own.
	const [one, two, ...again] = answers.map(({ by }) => by);
	expect(new Set([one, two])).toEqual(new Set(["one", "two"]));
	expect(again).toEqual([one, two]);
	expect(engine.stats().udpFlows).toBe(2);
});

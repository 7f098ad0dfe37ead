import { expect } from "vitest";
import { DescriptorBudget } from "../../../../src/proxies/descriptor-budget.ts";
import type { RelayContext } from "../../../../src/proxies/listener.ts";
import { UdpWorker, type UdpWorkerParts } from "../../../../src/proxies/syscall/udp-worker.ts";
import { systemClock } from "../../../../src/shared/clock.ts";

/** One whose turns the test makes; who wants to hear of something says so. */
export function aUdpWorker(parts: UdpWorkerParts, context: Partial<RelayContext> = {}): UdpWorker {
	const quiet: RelayContext = {
		hooks: { onConnectionStart: () => {}, onConnectionEnd: () => {} },
		clock: systemClock,
		createBalancer: () => expect.unreachable("the worker makes its own"),
		nextId: () => "1",
		repeat: () => () => {},
		leadsBack: () => false,
		onUdpFault: () => {},
		budget: new DescriptorBudget(1_000),
	};
	const limits = { idleMs: 30_000, firstAnswerMs: 5_000, maxFlows: 100 };
	return new UdpWorker({ ...quiet, ...context }, limits, parts);
}

import { describe, expect, test as it } from "vitest";
import { resolveConfig } from "../../../src/config/resolve.ts";
import { preferredPortsOf, relayOptionsOf } from "../../../src/daemon/engine.ts";
import { PlanNotices } from "../../../src/daemon/plan-notices.ts";
import { countChanges } from "../../../src/daemon/snapshot-changes.ts";
import { createSnapshotMerger } from "../../../src/daemon/sources.ts";
import { parseIpAddress } from "../../../src/services/address.ts";
import type { Snapshot } from "../../../src/services/objects.ts";
import { planServicePorts } from "../../../src/services/plan-service-ports.ts";
import { toPort } from "../../../src/services/port.ts";
import type { Source } from "../../../src/sources/source.ts";
import { rawService, rawSlice } from "../../kit/raw-objects.ts";
import { recordingLog } from "../../kit/recording-log.ts";
import { snapshotOf } from "../../kit/snapshots.ts";
import { plainView } from "../../kit/views.ts";

describe("PlanNotices", () => {
	const sctp = rawService({ ports: [{ name: "sig", protocol: "SCTP", port: 36_412 }] });
	const planOf = (services: unknown[]) =>
		planServicePorts(snapshotOf(services), plainView, { serviceProxyName: undefined });

	it("says once what is not served, and once that it is over (case 27e)", () => {
		const { log, lines } = recordingLog();
		const notices = new PlanNotices(log);
		notices.report(planOf([sctp]));
		notices.report(planOf([sctp]));
		expect(lines).toHaveLength(1);
		expect(lines[0]).toMatch(/^warn SCTP is not relayed.*shop\/cart:sig/);
		notices.report(planOf([]));
		expect(lines).toHaveLength(2);
		expect(lines[1]).toMatch(/^info no longer so/);
	});

	it("bounds its lines", () => {
		const { log, lines } = recordingLog();
		const ports = Array.from({ length: 200 }, (_, index) => ({
			name: `p${index}`,
			protocol: "SCTP",
			port: index + 1,
		}));
		new PlanNotices(log).report(planOf([rawService({ ports })]));
		expect(lines).toHaveLength(51);
		expect(lines.at(-1)).toContain('"more":150');
	});
});

describe("countChanges()", () => {
	it("counts what came, went and was replaced (classic 9.5.6)", () => {
		const before = snapshotOf([rawService({ name: "a" }), rawService({ name: "b" })], [rawSlice()]);
		const fresh = snapshotOf([rawService({ name: "b" }), rawService({ name: "c" })]);
		const services = new Map([...before.services, ...fresh.services]);
		services.delete("shop/a");
		expect(countChanges(undefined, before)).toEqual({ services: 2, endpoints: 1 });
		expect(countChanges(before, before)).toEqual({ services: 0, endpoints: 0 });
		expect(countChanges(before, { ...before, services })).toEqual({ services: 3, endpoints: 0 });
	});
});

describe("preferredPortsOf()", () => {
	it("takes the first port of each key that is known", () => {
		const address = parseIpAddress("10.96.0.10");
		const key = planServicePorts(snapshotOf([rawService()]), plainView, {
			serviceProxyName: undefined,
		}).servicePorts[0]?.key;
		if (address === undefined || key === undefined) throw new TypeError("fixture");
		const binding = {
			protocol: "tcp",
			family: "ipv4",
			address,
			port: toPort(80),
			listenAddress: undefined,
		} as const;
		const ports = preferredPortsOf([
			{ ...binding, key, proxyPort: toPort(40_001) },
			{ ...binding, key, proxyPort: toPort(40_002) },
			{ ...binding, key: undefined, proxyPort: toPort(40_003) },
		]);
		expect([...ports]).toEqual([[key, 40_001]]);
	});
});

describe("createSnapshotMerger()", () => {
	function aSource(snapshot: Snapshot, synced: () => boolean): Source {
		return {
			name: "test",
			start: () => {},
			isSynced: synced,
			snapshot: () => snapshot,
			status: () => {
				throw new Error("not asked for here");
			},
			closed: () => Promise.resolve(),
		};
	}

	it("waits for every source, then names hidden objects once (classic 9.7.7)", () => {
		const { log, lines } = recordingLog();
		let isSynced = false;
		const first = aSource(snapshotOf([rawService()]), () => true);
		const second = aSource(snapshotOf([rawService(), rawService({ name: "pay" })]), () => isSynced);
		const merge = createSnapshotMerger([first, second], log);
		expect(merge()).toBeUndefined();
		isSynced = true;
		expect([...(merge()?.services.keys() ?? [])]).toEqual(["shop/cart", "shop/pay"]);
		merge();
		expect(lines).toHaveLength(1);
		expect(lines[0]).toContain("Service shop/cart");
	});
});

describe("relayOptionsOf()", () => {
	it("hands each flag to the option that it stands for", () => {
		const result = resolveConfig({
			flags: {
				manifests: ["/etc/m"],
				"bind-address": ["192.0.2.1"],
				"proxy-port-range": ["40000-40009"],
				"dial-timeouts": ["10ms,20ms"],
				"half-close-timeout": ["3s"],
				"udp-timeout": ["4s"],
				"udp-first-answer-timeout": ["5s"],
				"max-udp-flows": ["6"],
			},
			file: undefined,
			env: {},
			hostname: "node1",
		});
		if ("problems" in result) throw new TypeError(JSON.stringify(result.problems));
		expect(relayOptionsOf(result.config)).toEqual({
			bindAddress: "192.0.2.1",
			portRange: { first: 40_000, last: 40_009 },
			dialTimeoutsMs: [10, 20],
			halfCloseIdleMs: 3_000,
			udp: { idleMs: 4_000, firstAnswerMs: 5_000, maxFlows: 6 },
		});
	});
});

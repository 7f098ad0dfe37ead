import { describe, expect, test as it } from "vitest";
import { createBalancer } from "../../../../src/balancing/balancer.ts";
import { readRelayedPort, writeRelayedPort } from "../../../../src/proxies/syscall/relayed-port.ts";
import {
	type CreateBalancer,
	failingOf,
	ServedPort,
} from "../../../../src/proxies/syscall/served-port.ts";
import type { SessionAffinity } from "../../../../src/services/objects.ts";
import type { ServicePort } from "../../../../src/services/service-port.ts";
import { anAddress, anEndpointAt, aServicePort } from "../builders.ts";

const BY_CLIENT: SessionAffinity = { type: "ClientIP", timeoutMs: 60_000 };
const FIRST = anEndpointAt("10.2.1.2", 8080, "cart-0");
const SECOND = anEndpointAt("10.2.2.2", 8080);
const CLIENT = { clientAddress: anAddress("10.1.0.1"), tried: new Set<string>() };

/** A port, and which balancers were made. */
function aPort(servicePort: ServicePort) {
	const made: number[] = [];
	const create: CreateBalancer = (listener, _turn, sibling) => {
		made.push(listener);
		return createBalancer({ now: () => 0, random: () => 0, sibling });
	};
	const served = new ServedPort(7, 0, writeRelayedPort(servicePort), create);
	return { served, made };
}

describe("a ServicePort that a worker serves", () => {
	it("is as it was told, without where its clients dial", () => {
		for (const endpoints of [[], [FIRST, SECOND]]) {
			const servicePort = aServicePort({ endpoints, sessionAffinity: BY_CLIENT });
			const { name, family, sessionAffinity } = servicePort;
			const told = { name, family, endpoints, sessionAffinity };
			expect(readRelayedPort(writeRelayedPort(servicePort))).toEqual(told);
			expect(aPort(servicePort).served.port).toEqual(told);
		}
	});

	it("has no balancer before its first client, whatever changes until then", () => {
		const { served, made } = aPort(aServicePort({ endpoints: [FIRST] }));
		served.update(writeRelayedPort(aServicePort({ endpoints: [FIRST, SECOND] })));
		served.update(writeRelayedPort(aServicePort({ endpoints: [SECOND] })));
		expect(served.failing()).toEqual([]);
		expect(made).toEqual([]);
		expect(served.balancer.pick(CLIENT)?.endpoint).toEqual(SECOND);
		expect(served.balancer.pick(CLIENT)?.endpoint).toEqual(SECOND);
		expect(made).toEqual([7]);
	});

	it("follows every change after that", () => {
		const { served } = aPort(aServicePort({ endpoints: [FIRST] }));
		const { balancer } = served;
		served.update(writeRelayedPort(aServicePort({ name: "new", endpoints: [SECOND] })));
		expect(balancer.pick(CLIENT)?.endpoint).toEqual(SECOND);
		expect(served.balancer).toBe(balancer);
		expect(served.port.name).toBe("shop/new:http");
	});

	it("remembers what another worker has found out before its first client", () => {
		const { served, made } = aPort(aServicePort({ endpoints: [FIRST, SECOND] }));
		served.note(FIRST.key, "answered");
		expect(made).toEqual([]);
		served.note(FIRST.key, "failed");
		expect(failingOf([served])).toEqual(new Map([[7, [FIRST.key]]]));
		expect(served.balancer.pick(CLIENT)?.endpoint).toEqual(SECOND);
	});

	it("takes each socket once", () => {
		const { served } = aPort(aServicePort());
		expect(served.addSockets([5, 6])).toEqual([5, 6]);
		expect(served.addSockets([6, 7])).toEqual([7]);
		expect(served.fds).toEqual([5, 6, 7]);
	});

	it("shares a client's endpoint with the other one of its port", () => {
		const both = aServicePort({ endpoints: [FIRST, SECOND], sessionAffinity: BY_CLIENT });
		const { served } = aPort(both);
		const other = aPort(aServicePort({ endpoints: [SECOND], sessionAffinity: BY_CLIENT })).served;
		served.joinWith(other);
		other.balancer.answered(SECOND, CLIENT.clientAddress);
		expect(served.balancer.pick(CLIENT)).toEqual({ endpoint: SECOND, affinity: "kept" });
	});
});

import { expect, test as it } from "vitest";
import { planRules, withoutCapture } from "../../../src/rules/plan.ts";
import { restoreText } from "../../../src/rules/restore-text.ts";
import { parseSavedRules } from "../../../src/rules/saved-rules.ts";
import type { Binding } from "../../../src/services/service-port.ts";
import { aBinding, wantedRules } from "../../kit/bindings.ts";
import { type Packet, PacketTracer, type TracerOptions } from "../../kit/packet-tracer.ts";

// Addresses: client 10.1.0.2 on the node's eth0 (10.1.0.1, 192.168.77.1), services 10.96.0.0/16.
const nodeAddresses = ["10.1.0.1", "192.168.77.1", "127.0.0.1"];

const web = aBinding({ addresses: ["10.96.0.10"], port: 80, proxyPort: 30_001 });
const dns = aBinding({
	service: "dns",
	protocol: "udp",
	addresses: ["10.96.0.53"],
	port: 53,
	proxyPort: 30_053,
	listenAddress: "192.168.77.1",
});
const emptyWeb: Binding = { ...web, verdict: "reject" };
const emptyDns: Binding = { ...dns, verdict: "reject" };

function tracer(bindings: readonly Binding[], options: Partial<TracerOptions> = {}): PacketTracer {
	const text = restoreText(planRules(wantedRules(bindings), "ipv4"), parseSavedRules(""));
	return new PacketTracer(text, { nodeAddresses, ...options });
}

function packet(fields: Partial<Packet> = {}): Packet {
	return {
		inInterface: "eth0",
		source: "10.1.0.2",
		destination: "10.96.0.10",
		protocol: "tcp",
		destinationPort: 80,
		state: "NEW",
		...fields,
	};
}

const toDns = { destination: "10.96.0.53", destinationPort: 53, protocol: "udp" } as const;
const fromNode = { inInterface: undefined, source: "10.1.0.1" };

it.each([
	["a client to a TCP service", packet(), "10.1.0.1", 30_001],
	["the node to a TCP service", packet(fromNode), "127.0.0.1", 30_001],
	["a client to a UDP service", packet(toDns), "192.168.77.1", 30_053],
	["the node to a UDP service", packet({ ...toDns, ...fromNode }), "192.168.77.1", 30_053],
])("%s is led to the listener, whatever the policy of INPUT", (_, sent, address, port) => {
	for (const inputPolicy of ["ACCEPT", "DROP"] as const) {
		expect(tracer([web, dns], { inputPolicy }).trace(sent)).toMatchObject({
			verdict: "ACCEPT",
			address,
			port,
		});
	}
});

it.each([
	["another port", packet({ destinationPort: 81 })],
	["another protocol", packet({ protocol: "udp" })],
	["another address", packet({ destination: "10.96.0.11" })],
	["a port of the node", packet({ destination: "10.1.0.1", destinationPort: 22 })],
])("%s is left to the host", (_, sent) => {
	const { destination, destinationPort } = sent;

	for (const inputPolicy of ["ACCEPT", "DROP"] as const) {
		expect(tracer([web, dns], { inputPolicy }).trace(sent)).toMatchObject({
			isByRule: false,
			address: destination,
			port: destinationPort,
			comment: "",
		});
	}
});

it.each([
	["TCP", packet(), "REJECT tcp-reset"],
	["TCP from the node", packet(fromNode), "REJECT tcp-reset"],
	["UDP", packet(toDns), "REJECT icmp-port-unreachable"],
	["UDP from the node", packet({ ...toDns, ...fromNode }), "REJECT icmp-port-unreachable"],
])("a service without endpoints refuses new %s at once", (_, sent, verdict) => {
	for (const inputPolicy of ["ACCEPT", "DROP"] as const) {
		expect(tracer([emptyWeb, emptyDns], { inputPolicy }).trace(sent)).toMatchObject({ verdict });
	}
});

it("a service without endpoints lets its established connections go on", () => {
	const sent = packet({ state: "ESTABLISHED", natTo: { address: "10.1.0.1", port: 30_001 } });

	expect(tracer([emptyWeb], { inputPolicy: "DROP" }).trace(sent).verdict).toBe("ACCEPT");
});

it.each([
	["TCP", packet({ destination: "10.1.0.1", destinationPort: 30_001 })],
	["UDP", packet({ ...toDns, destination: "192.168.77.1", destinationPort: 30_053 })],
])("a %s packet from outside straight to a proxy port is dropped", (_, sent) => {
	expect(tracer([web, dns]).trace(sent).verdict).toBe("DROP");
	expect(tracer([emptyWeb, emptyDns]).trace(sent).verdict).toBe("DROP");
});

it("the node itself may dial a proxy port", () => {
	const sent = packet({ ...fromNode, destination: "127.0.0.1", destinationPort: 30_001 });

	expect(tracer([web]).trace(sent).verdict).toBe("ACCEPT");
});

it("the number of a UDP proxy port on another address of the node is not ours", () => {
	const sent = packet({ ...toDns, destination: "10.1.0.1", destinationPort: 30_053 });

	expect(tracer([dns]).trace(sent).verdict).toBe("ACCEPT");
});

it("answers to connections that the node opened are left to the host's own rules", () => {
	const answer = packet({ destination: "10.1.0.1", destinationPort: 30_001, state: "ESTABLISHED" });
	const hostRules = ["-A INPUT -m conntrack --ctstate ESTABLISHED -j ACCEPT"];

	expect(tracer([web], { hostRules, inputPolicy: "DROP" }).trace(answer).verdict).toBe("ACCEPT");
	expect(tracer([web], { inputPolicy: "DROP" }).trace(answer).verdict).toBe("DROP");
});

it("an ICMP error about a redirected flow gets in where the host drops what is related", () => {
	const natTo = { address: "10.1.0.1", port: 30_001 };
	const error = packet({ protocol: "icmp", state: "RELATED", natTo });
	const other = packet({ protocol: "icmp", state: "RELATED", destination: "10.1.0.1" });

	expect(tracer([web], { inputPolicy: "DROP" }).trace(error).verdict).toBe("ACCEPT");
	expect(tracer([web], { inputPolicy: "DROP" }).trace(other).verdict).toBe("DROP");
});

it("a connection that somebody else's DNAT leads to another port is left to the host", () => {
	const theirs = packet({
		destination: "10.1.0.1",
		destinationPort: 8_080,
		natTo: { address: "10.1.0.1", port: 8_443 },
	});

	for (const inputPolicy of ["ACCEPT", "DROP"] as const) {
		expect(tracer([web], { inputPolicy }).trace(theirs).verdict).toBe(inputPolicy);
	}
});

it("after captureOff new connections pass by and established ones go on", () => {
	const off = withoutCapture(planRules(wantedRules([web]), "ipv4"));
	const text = restoreText(off, parseSavedRules(""));
	const trace = new PacketTracer(text, { nodeAddresses, inputPolicy: "DROP" });
	const natTo = { address: "10.1.0.1", port: 30_001 };

	expect(trace.trace(packet())).toMatchObject({ address: "10.96.0.10", port: 80 });
	expect(trace.trace(packet({ state: "ESTABLISHED", natTo })).verdict).toBe("ACCEPT");
	expect(trace.trace(packet({ destination: "10.1.0.1", destinationPort: 30_001 })).verdict).toBe(
		"DROP",
	);
});

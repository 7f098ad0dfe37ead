import { expect, test as it } from "vitest";
import { type Packet, PacketTracer } from "../../kit/packet-tracer.ts";

const nodeAddresses = ["10.1.0.1", "fd10:1::1"];
const sent: Packet = {
	inInterface: "eth0",
	source: "10.1.0.2",
	destination: "10.1.0.1",
	protocol: "tcp",
	destinationPort: 80,
	state: "NEW",
};

function input(...rules: readonly string[]): PacketTracer {
	const lines = rules.map((rule) => `-A INPUT ${rule}`);
	return new PacketTracer(["*filter", ...lines, "COMMIT", ""].join("\n"), { nodeAddresses });
}

it("the first rule that matches decides", () => {
	expect(input("-p udp -j ACCEPT", "-p tcp -j DROP", "-j ACCEPT").trace(sent).verdict).toBe("DROP");
});

it("a negated match is the opposite", () => {
	expect(input("! -i lo -j DROP").trace(sent).verdict).toBe("DROP");
	expect(input("! -i eth0 -j DROP").trace(sent).verdict).toBe("ACCEPT");
});

it("all matches of a rule must hold", () => {
	expect(
		input("-d 10.1.0.1/32 -p tcp -m multiport --dports 79,81 -j DROP").trace(sent).verdict,
	).toBe("ACCEPT");
	expect(
		input("-d 10.1.0.1/32 -p tcp -m multiport --dports 79,80 -j DROP").trace(sent).verdict,
	).toBe("DROP");
});

it("a packet comes back from a chain that did not decide", () => {
	const trace = new PacketTracer(
		"*filter\n:OURS - [0:0]\n-I INPUT 1 -j OURS\n-A OURS -j RETURN\n-A OURS -j DROP\nCOMMIT\n",
		{ nodeAddresses, inputPolicy: "DROP", hostRules: ["-A INPUT -p tcp -j ACCEPT"] },
	);

	expect(trace.trace(sent).verdict).toBe("ACCEPT");
	expect(trace.trace({ ...sent, protocol: "udp" }).verdict).toBe("DROP");
});

it("NAT is done before the filter sees the packet, and for new flows only", () => {
	const text =
		"*nat\n-A PREROUTING -p tcp -j REDIRECT --to-ports 30001\nCOMMIT\n" +
		"*filter\n-A INPUT -p tcp -m multiport --dports 30001 -m conntrack --ctstate DNAT -j DROP\nCOMMIT\n";
	const trace = new PacketTracer(text, { nodeAddresses });

	expect(trace.trace(sent)).toMatchObject({ verdict: "DROP", address: "10.1.0.1", port: 30_001 });
	expect(trace.trace({ ...sent, state: "ESTABLISHED" })).toMatchObject({
		verdict: "ACCEPT",
		port: 80,
	});
});

const sent6: Packet = { ...sent, source: "fd10:1::2", destination: "fd10:1::1" };

it.each([
	["its source", "-s 10.1.0.0/24 -j DROP", sent],
	["its source over IPv6", "-s fd10:1::/64 -j DROP", sent6],
	["its destination's range", "-d 10.1.0.0/24 -j DROP", sent],
	["not being loopback's", "! -d 127.0.0.0/8 -j DROP", sent],
	["the beginning of its interface", "-i eth+ -j DROP", sent],
	["loopback, which is local whole", "-m addrtype --dst-type LOCAL -j DROP", toLoopback()],
])("a packet is known by %s", (_, rule, packet) => {
	expect(input(rule).trace(packet).verdict).toBe("DROP");
});

it.each([
	["its source", "-s 10.1.0.3/32 -j DROP", sent],
	["its destination's range", "-d 10.2.0.0/24 -j DROP", sent],
	["the range of the other family", "-s 0.0.0.0/0 -j DROP", sent6],
	["the beginning of its interface", "-i cali+ -j DROP", sent],
	[
		"being the node's",
		"-m addrtype --dst-type LOCAL -j DROP",
		{ ...sent, destination: "10.9.0.1" },
	],
])("a packet is told from others by %s", (_, rule, packet) => {
	expect(input(rule).trace(packet).verdict).toBe("ACCEPT");
});

it("conntrack tells which address and port were asked before NAT", () => {
	const asked = (address: string, port: number) =>
		new PacketTracer(
			"*nat\n-A PREROUTING -d 192.0.2.7/32 -p tcp -j REDIRECT --to-ports 30001\nCOMMIT\n" +
				`*filter\n-A INPUT -m conntrack --ctorigdst ${address} --ctorigdstport ${port} -j DROP\nCOMMIT\n`,
			{ nodeAddresses },
		).trace({ ...sent, destination: "192.0.2.7" }).verdict;

	expect(asked("192.0.2.7", 80)).toBe("DROP");
	expect(asked("192.0.2.7", 30_001)).toBe("ACCEPT");
	expect(asked("10.1.0.1", 80)).toBe("ACCEPT");
});

function toLoopback(): Packet {
	return { ...sent, inInterface: undefined, source: "127.0.0.1", destination: "127.1.2.3" };
}

it.each([
	["an unknown match", "-p tcp -m recent --set -j ACCEPT"],
	["an unknown option", "-o eth0 -j ACCEPT"],
	["a range that is none", "-s 10.0.0.1/33 -j ACCEPT"],
	["an unknown target", "-j MASQUERADE"],
	["no target", "-p tcp"],
	["more ports than the kernel takes", `-m multiport --dports ${"1,".repeat(15)}80 -j ACCEPT`],
])("%s fails the test instead of being passed over", (_, rule) => {
	expect(() => input(rule).trace(sent)).toThrow("Cannot trace");
});

it("a rule in a chain that was not declared, and a command that we never write, are refused", () => {
	expect(() => new PacketTracer("*filter\n-A OURS -j ACCEPT\n", { nodeAddresses })).toThrow(
		"undeclared chain OURS",
	);
	expect(() => new PacketTracer("*filter\n-R INPUT 1 -j ACCEPT\n", { nodeAddresses })).toThrow(
		"Cannot trace line",
	);
});

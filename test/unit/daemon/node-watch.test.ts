import { beforeEach, describe, expect, test as it } from "vitest";
import type { Config } from "../../../src/config/config.ts";
import { resolveConfig } from "../../../src/config/resolve.ts";
import type { WaitingSocket } from "../../../src/daemon/host-ports.ts";
import type { Interfaces, Link } from "../../../src/daemon/node-network.ts";
import { NodeWatch } from "../../../src/daemon/node-watch.ts";
import type { NodeInfo } from "../../../src/services/objects.ts";
import { toPort } from "../../../src/services/port.ts";
import { type Log, silentLog } from "../../../src/shared/log.ts";
import { anAddress } from "../../kit/bindings.ts";
import { aRange } from "../../kit/ranges.ts";

/** A node whose network is whatever the test says. */
class World {
	interfaces: () => Interfaces = () => ({});
	linkNames: string[] = [];
	links: Link[] = [];
	sockets: WaitingSocket[] = [];
	nodeInfo: NodeInfo | undefined;
	nowMs = 0;
	readonly lines: string[] = [];

	watch(flags: Record<string, string> = {}): NodeWatch {
		const note: Log["info"] = (_fields, message) => this.lines.push(message);
		return new NodeWatch({
			config: configOf(flags),
			log: { ...silentLog, warn: note, info: note },
			nodeInfo: () => this.nodeInfo,
			bindings: () => [{ protocol: "tcp", family: "ipv4", proxyPort: toPort(40_001) }],
			clock: { monotonicMs: () => this.nowMs, wallMs: () => 0 },
			system: {
				interfaces: () => this.interfaces(),
				routes: () => "",
				linkNames: () => this.linkNames,
				links: () => this.links,
				waitingSockets: () => this.sockets,
			},
		});
	}
}

function configOf(flags: Record<string, string>): Config {
	const result = resolveConfig({
		flags: { manifests: ["/m"], ...mapToLists(flags) },
		file: undefined,
		env: {},
		hostname: "node1",
	});
	if ("problems" in result) throw new TypeError(JSON.stringify(result.problems));
	return result.config;
}

function mapToLists(flags: Record<string, string>): Record<string, string[]> {
	return Object.fromEntries(Object.entries(flags).map(([name, text]) => [name, [text]]));
}

function interfaces(...cidrs: string[]): () => Interfaces {
	return () => ({
		lo: [{ address: "127.0.0.1", internal: true, cidr: "127.0.0.1/8" }],
		eth0: cidrs.map((cidr) => ({ address: cidr.split("/")[0] ?? "", internal: false, cidr })),
	});
}

let world: World;

beforeEach(() => {
	world = new World();
});

describe("NodeWatch and addresses", () => {
	it("tells of an address that came, changed and went", () => {
		const node = world.watch();
		expect(node.refresh()).toBe(false);
		expect(node.addressOf("ipv4")).toBeUndefined();
		world.interfaces = interfaces("192.168.0.9/24");
		expect(node.refresh()).toBe(true);
		expect(node.refresh()).toBe(false);
		expect(node.addressOf("ipv4")).toBe("192.168.0.9");
		world.interfaces = interfaces("192.168.0.10/24");
		expect(node.refresh()).toBe(true);
		expect(node.addressOf("ipv4")).toBe("192.168.0.10");
		expect([...node.view().addresses]).toEqual(["127.0.0.1", "192.168.0.10"]);
		expect([...node.view().broadcastAddresses]).toContain("192.168.0.255");
	});

	it("gives the same view and network while they say the same", () => {
		const node = world.watch();
		world.interfaces = interfaces("192.168.0.9/24");
		node.refresh();
		const { view, network } = { view: node.view(), network: node.network() };
		node.refresh();
		expect(node.view()).toBe(view);
		expect(node.network()).toBe(network);
		world.interfaces = interfaces("192.168.0.9/24", "192.168.1.9/24");
		node.refresh();
		expect(node.view()).not.toBe(view);
		expect(node.network()).not.toBe(network);
	});

	it("keeps what it knows while the system does not answer, and says so once each way", () => {
		const node = world.watch();
		world.interfaces = interfaces("192.168.0.9/24");
		node.refresh();
		world.lines.length = 0;
		// As os.networkInterfaces() does without a free descriptor.
		world.interfaces = () => {
			throw Object.assign(new Error("uv_interface_addresses"), { code: "ERR_SYSTEM_ERROR" });
		};
		for (let turn = 0; turn < 3; turn += 1) expect(node.refresh()).toBe(false);
		expect(node.addressOf("ipv4")).toBe("192.168.0.9");
		world.interfaces = interfaces("192.168.0.9/24");
		expect(node.refresh()).toBe(false);
		expect(world.lines).toEqual([
			"cannot look up this node's addresses, those known stay",
			"this node's addresses are looked up again",
		]);
	});
});

describe("NodeWatch and interfaces without an address", () => {
	const cali: Link = { name: "cali1", hasIpv6: false };

	beforeEach(() => {
		world.interfaces = interfaces("192.168.0.9/24");
	});

	it("has arriving TCP led to a node address once such an interface has stayed so for a second", () => {
		const node = world.watch();
		node.refresh();
		expect(node.hasNewLinks()).toBe(false);
		world.linkNames = ["cali1", "eth0"];
		world.links = [cali, { name: "eth0", hasIpv6: true }];
		expect(node.hasNewLinks()).toBe(true);
		world.nowMs += 1_000;
		node.refresh();
		expect(node.network().arrivalAddress.tcp.ipv4).toBeUndefined();
		expect(node.hasSuspects()).toBe(true);
		world.nowMs += 999;
		node.refresh();
		expect(node.network().arrivalAddress.tcp.ipv4).toBeUndefined();
		world.nowMs += 1;
		expect(node.refresh()).toBe(true);
		expect(node.network().arrivalAddress.tcp).toEqual({ ipv4: "192.168.0.9", ipv6: undefined });
		expect(world.lines.filter((line) => line.includes("DNAT"))).toHaveLength(1);
		world.links = [];
		world.nowMs += 5_000;
		node.refresh();
		expect(node.network().arrivalAddress.tcp.ipv4).toBe("192.168.0.9");
	});

	it("has arriving UDP led to a node address at once: nobody sends again what is lost", () => {
		const node = world.watch();
		node.refresh();
		expect(node.network().arrivalAddress.udp).toEqual({ ipv4: "192.168.0.9", ipv6: undefined });
		const before = node.network();
		world.interfaces = interfaces("192.168.0.7/24");
		expect(node.refresh()).toBe(true);
		expect(node.network()).not.toBe(before);
		expect(node.network().arrivalAddress.udp.ipv4).toBe("192.168.0.7");
	});

	it("does not mind one that was just being set up", () => {
		const node = world.watch();
		world.links = [cali];
		node.refresh();
		world.links = [];
		world.nowMs += 1_000;
		node.refresh();
		world.links = [{ name: "cali2", hasIpv6: false }];
		world.nowMs += 1_000;
		node.refresh();
		expect(node.network().arrivalAddress.tcp.ipv4).toBeUndefined();
	});

	it("does not look where every listener has one address anyway", () => {
		const node = world.watch({ "bind-address": "192.168.0.9" });
		world.links = [cali];
		world.linkNames = ["cali1"];
		node.refresh();
		world.nowMs += 1_000;
		node.refresh();
		expect(node.network().arrivalAddress.tcp.ipv4).toBeUndefined();
		expect([node.hasNewLinks(), node.hasSuspects()]).toEqual([false, false]);
	});
});

describe("NodeWatch and node ports", () => {
	const all = { ipv4: "all", ipv6: "all" };

	it.each<[string, Record<string, string>, unknown]>([
		["no list", {}, all],
		["all", { "nodeport-addresses": "all" }, all],
		[
			"ranges of one family",
			{ "nodeport-addresses": "10.0.0.0/8" },
			{ ipv4: ["10.0.0.0/8"], ipv6: "all" },
		],
		[
			"primary",
			{ "nodeport-addresses": "primary" },
			{ ipv4: ["192.168.0.9/32"], ipv6: ["fd10::9/128"] },
		],
		[
			"localhost beside a range",
			{ "nodeport-addresses": "localhost, fd10::/64" },
			{ ipv4: ["127.0.0.0/8"], ipv6: ["fd10::/64", "::1/128"] },
		],
	])("serves them where %s says", (_name, flags, ranges) => {
		world.interfaces = interfaces("192.168.0.9/24", "fd10::9/64");
		world.nodeInfo = {
			name: "node1",
			zone: undefined,
			addresses: [anAddress("192.168.0.9")],
			podRanges: [],
		};
		const node = world.watch(flags);
		node.refresh();
		expect(node.network().nodePorts).toEqual({ ranges, onLoopback: true });
	});

	it.each<[Record<string, string>, unknown]>([
		[{ "cluster-cidr": "10.244.0.0/16,fd00::/48" }, ["10.244.0.0/16", "fd00::/48"]],
		[{ "detect-local-mode": "NodeCIDR", "cluster-cidr": "10.244.0.0/16" }, ["10.244.7.0/24"]],
	])("knows Pods by their addresses: %j", (flags, ranges) => {
		const podRanges = [aRange("10.244.7.0/24")];
		world.nodeInfo = { name: "node1", zone: undefined, addresses: [], podRanges };
		const node = world.watch(flags);
		node.refresh();
		expect(node.network().pods).toEqual({ ranges, interfaces: [] });
	});

	it("knows Pods by their interfaces", () => {
		const bridge = { "detect-local-mode": "BridgeInterface", "pod-bridge-interface": "cni0" };
		const prefix = {
			"detect-local-mode": "InterfaceNamePrefix",
			"pod-interface-name-prefix": "cali",
		};
		const podsOf = (flags: Record<string, string>) => {
			const node = world.watch(flags);
			node.refresh();
			return node.network().pods.interfaces;
		};
		expect(podsOf(bridge)).toEqual(["cni0"]);
		expect(podsOf(prefix)).toEqual(["cali+"]);
	});

	it("asks the kernel anew which ports are taken, once a look", () => {
		const node = world.watch();
		const wanted = {
			protocol: "tcp",
			family: "ipv4",
			address: undefined,
			port: toPort(30_080),
		} as const;
		node.refresh();
		expect(node.view().isPortTaken(wanted)).toBe(false);
		world.sockets = [{ protocol: "tcp", address: anAddress("0.0.0.0"), port: 30_080 }];
		expect(node.view().isPortTaken(wanted)).toBe(false);
		node.refresh();
		expect(node.view().isPortTaken(wanted)).toBe(true);
		expect(node.view().isPortTaken({ ...wanted, protocol: "udp" })).toBe(false);
		const before = node.view();
		world.sockets = [];
		node.askPortsAgain();
		expect(node.view()).not.toBe(before);
		expect(node.view().isPortTaken(wanted)).toBe(false);
	});

	it("does not take a proxy port of our own for somebody else's", () => {
		const node = world.watch();
		world.sockets = [{ protocol: "tcp", address: anAddress("0.0.0.0"), port: 40_001 }];
		const own = { protocol: "tcp", address: undefined, port: toPort(40_001) } as const;
		expect(node.view().isPortTaken({ ...own, family: "ipv4" })).toBe(false);
	});
});

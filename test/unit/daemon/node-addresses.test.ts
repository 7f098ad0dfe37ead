import { describe, expect, test as it } from "vitest";
import type { Interfaces } from "../../../src/daemon/node-address.ts";
import { NodeAddresses } from "../../../src/daemon/node-addresses.ts";
import { type Log, silentLog } from "../../../src/shared/log.ts";

function someAddresses() {
	const lines: string[] = [];
	const note: Log["info"] = (_fields, message) => lines.push(message);
	const node: { interfaces: () => Interfaces } = { interfaces: () => ({}) };
	const addresses = new NodeAddresses({
		log: { ...silentLog, warn: note, info: note },
		clusterAddresses: () => [],
		interfaces: () => node.interfaces(),
		routes: () => "",
	});
	return { addresses, lines, node };
}

const with1 = (): Interfaces => ({ eth0: [{ address: "192.168.0.9", internal: false }] });
const with2 = (): Interfaces => ({ eth0: [{ address: "192.168.0.10", internal: false }] });

describe("NodeAddresses", () => {
	it("tells of an address that came, changed and went", () => {
		const { addresses, node } = someAddresses();
		expect(addresses.refresh()).toBe(false);
		expect(addresses.of("ipv4")).toBeUndefined();
		node.interfaces = with1;
		expect(addresses.refresh()).toBe(true);
		expect(addresses.refresh()).toBe(false);
		expect(addresses.of("ipv4")).toBe("192.168.0.9");
		node.interfaces = with2;
		expect(addresses.refresh()).toBe(true);
		expect(addresses.of("ipv4")).toBe("192.168.0.10");
	});

	it("keeps what it knows while the system does not answer, and says so once each way", () => {
		const { addresses, node, lines } = someAddresses();
		node.interfaces = with1;
		addresses.refresh();
		lines.length = 0;
		// As os.networkInterfaces() does without a free descriptor.
		node.interfaces = () => {
			throw Object.assign(new Error("uv_interface_addresses"), { code: "ERR_SYSTEM_ERROR" });
		};
		for (let turn = 0; turn < 3; turn += 1) expect(addresses.refresh()).toBe(false);
		expect(addresses.of("ipv4")).toBe("192.168.0.9");
		node.interfaces = with1;
		expect(addresses.refresh()).toBe(false);
		expect(lines).toEqual([
			"cannot look up this node's addresses, those known stay",
			"this node's addresses are looked up again",
		]);
	});
});

import { describe, expect, test as it } from "vitest";
import { createBalancer } from "../../../src/balancing/balancer.ts";
import type { ServicePortListener } from "../../../src/proxies/listener.ts";
import {
	PortAllocator,
	type PortAllocatorOptions,
	ProxyPortsExhaustedError,
} from "../../../src/proxies/port-allocator.ts";
import { type Port, toPort } from "../../../src/services/port.ts";
import type { ServicePortKey } from "../../../src/services/service-port.ts";
import { aServicePort } from "./builders.ts";

class SystemError extends Error {
	readonly code: string;
	constructor(code: string) {
		super(`bind ${code}`);
		this.code = code;
	}
}

/** A host on which some ports are in use, and whose kernel counts up from 40000. */
function aHost(...inUse: number[]) {
	const asked: number[] = [];
	let nextByKernel = 40_000;
	const open = (wanted: Port | 0): Promise<ServicePortListener> => {
		asked.push(wanted);
		if (inUse.includes(wanted)) return Promise.reject(new SystemError("EADDRINUSE"));
		const proxyPort = wanted === 0 ? toPort(nextByKernel++) : wanted;
		return Promise.resolve({
			proxyPort,
			listenAddress: undefined,
			balancer: createBalancer({ now: () => 0, random: () => 0 }),
			failingEndpoints: () => [],
			update: () => {},
			close: () => {},
		});
	};
	return { open, asked };
}

function anAllocator(overrides: Partial<PortAllocatorOptions> = {}) {
	return new PortAllocator({
		range: undefined,
		preferred: new Map(),
		random: () => 0,
		...overrides,
	});
}

function range(first: number, last: number) {
	return { first: toPort(first), last: toPort(last) };
}

function preferring(...ports: (readonly [ServicePortKey, number])[]) {
	return new Map(ports.map(([key, port]) => [key, toPort(port)]));
}

const cart = aServicePort({ name: "cart" });
const stock = aServicePort({ name: "stock" });

describe("PortAllocator without a range", () => {
	it("lets the kernel choose (classic 9.3.1)", async () => {
		const { open, asked } = aHost();
		const listener = await anAllocator().allocate(cart, open);
		expect(listener.proxyPort).toBe(40_000);
		expect(asked).toEqual([0]);
	});

	it("tries the predecessor's port first", async () => {
		const { open, asked } = aHost();
		await anAllocator({ preferred: preferring([cart.key, 31_000]) }).allocate(cart, open);
		expect(asked).toEqual([31_000]);
	});

	it("takes another one when the predecessor's is in use", async () => {
		const { open, asked } = aHost(31_000);
		await anAllocator({ preferred: preferring([cart.key, 31_000]) }).allocate(cart, open);
		expect(asked).toEqual([31_000, 0]);
	});

	it("does not keep a port at which a predecessor's rules send others' clients (case 22e)", async () => {
		const allocator = anAllocator({ preferred: preferring([stock.key, 40_000]) });
		expect((await allocator.allocate(cart, aHost().open)).proxyPort).toBe(40_001);
	});

	it("gives the same number to another protocol or family", async () => {
		const udp = aServicePort({ protocol: "udp" });
		const allocator = anAllocator({ preferred: preferring([udp.key, 40_000]) });
		expect((await allocator.allocate(cart, aHost().open)).proxyPort).toBe(40_000);
	});

	it("keeps the ports of a port's two pools apart", async () => {
		const local = aServicePort({ name: "cart", pool: "local" });
		const preferred = preferring([cart.key, 31_000], [local.key, 31_001]);
		const { open, asked } = aHost();
		const allocator = anAllocator({ preferred });
		await allocator.allocate(local, open);
		await allocator.allocate(cart, open);
		expect(asked).toEqual([31_001, 31_000]);
	});

	it("does not give one pool the port at which a predecessor's rules send the other's clients", async () => {
		const local = aServicePort({ name: "cart", pool: "local" });
		const allocator = anAllocator({ preferred: preferring([local.key, 40_000]) });
		expect((await allocator.allocate(cart, aHost().open)).proxyPort).toBe(40_001);
		expect((await allocator.allocate(local, aHost().open)).proxyPort).toBe(40_000);
	});

	it("forgets the predecessor when told so", async () => {
		const allocator = anAllocator({ preferred: preferring([stock.key, 40_000]) });
		allocator.forgetPreferred();
		expect((await allocator.allocate(cart, aHost().open)).proxyPort).toBe(40_000);
	});

	it("gives up when the kernel gives only ports that are to be avoided", async () => {
		const preferred = preferring([stock.key, 40_000]);
		const always = () => aHost().open(0);
		await expect(anAllocator({ preferred }).allocate(cart, always)).rejects.toThrow(
			ProxyPortsExhaustedError,
		);
	});

	it("hands on an error that is not about the port, at the first try", async () => {
		const asked: number[] = [];
		const open = (port: Port | 0) => {
			asked.push(port);
			return Promise.reject(new SystemError("EAFNOSUPPORT"));
		};
		await expect(anAllocator().allocate(cart, open)).rejects.toThrow("EAFNOSUPPORT");
		expect(asked).toEqual([0]);
	});
});

describe("PortAllocator with a range", () => {
	it("gives the one port of a range of one, once (classic 9.3.2)", async () => {
		const allocator = anAllocator({ range: range(1, 1) });
		const { open } = aHost();
		expect((await allocator.allocate(cart, open)).proxyPort).toBe(1);
		await expect(allocator.allocate(stock, open)).rejects.toThrow(
			'Cannot listen for "shop/stock:http": no port of 1-1 is free',
		);
	});

	it("gives a released port again (classic 9.3.2)", async () => {
		const allocator = anAllocator({ range: range(1, 1) });
		const { open } = aHost();
		const listener = await allocator.allocate(cart, open);
		allocator.release(cart, listener.proxyPort);
		expect((await allocator.allocate(stock, open)).proxyPort).toBe(1);
	});

	it("gives all hundred of a hundred, in another order the next time (classic 9.3.3)", async () => {
		let start = 0.42;
		const allocator = anAllocator({ range: range(1, 100), random: () => start });
		const { open } = aHost();
		const rounds: number[][] = [];
		for (const next of [0.07, 0]) {
			const ports: number[] = [];
			for (let index = 0; index < 100; index += 1) {
				ports.push((await allocator.allocate(cart, open)).proxyPort);
			}
			await expect(allocator.allocate(cart, open)).rejects.toThrow(ProxyPortsExhaustedError);
			for (const port of ports) allocator.release(cart, toPort(port));
			rounds.push(ports);
			start = next;
		}
		const [first = [], second = []] = rounds;
		expect(first.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 100 }, (_, i) => i + 1));
		expect(second.toSorted((a, b) => a - b)).toEqual(first.toSorted((a, b) => a - b));
		expect(first).not.toEqual(second);
	});

	it("starts at random, goes up and wraps", async () => {
		const { open, asked } = aHost(12, 13);
		const allocator = anAllocator({ range: range(10, 13), random: () => 0.5 });
		expect((await allocator.allocate(cart, open)).proxyPort).toBe(10);
		expect(asked).toEqual([12, 13, 10]);
	});

	it("does not ask for ports that it knows are taken", async () => {
		const { open, asked } = aHost();
		const allocator = anAllocator({ range: range(10, 12) });
		await allocator.allocate(cart, open);
		await allocator.allocate(stock, open);
		expect(asked).toEqual([10, 11]);
	});

	it("has a range for each protocol and family", async () => {
		const allocator = anAllocator({ range: range(10, 10) });
		const { open } = aHost();
		await allocator.allocate(cart, open);
		await allocator.allocate(aServicePort({ protocol: "udp" }), open);
		expect((await allocator.allocate(aServicePort({ family: "ipv6" }), open)).proxyPort).toBe(10);
	});

	it("says why when every port is in use by others", async () => {
		const error = await anAllocator({ range: range(10, 11) })
			.allocate(cart, aHost(10, 11).open)
			.catch((caught: unknown) => caught);
		expect(error).toBeInstanceOf(ProxyPortsExhaustedError);
		expect(error).toMatchObject({ retriable: true, cause: { code: "EADDRINUSE" } });
	});

	it("does not use a predecessor's port outside the range", async () => {
		const { open, asked } = aHost();
		const allocator = anAllocator({
			range: range(10, 12),
			preferred: preferring([cart.key, 31_000]),
		});
		await allocator.allocate(cart, open);
		expect(asked).toEqual([10]);
	});

	it("leaves out ports at which a predecessor's rules send others' clients", async () => {
		const { open, asked } = aHost();
		const allocator = anAllocator({ range: range(10, 12), preferred: preferring([stock.key, 10]) });
		await allocator.allocate(cart, open);
		expect(asked).toEqual([11]);
	});
});

describe("PortAllocator and ports that UDP listeners had", () => {
	const udp = (name: string) => aServicePort({ name, protocol: "udp" });

	/** A range of which each port was held by a ServicePort of that name, released in order. */
	async function formerly(...names: string[]) {
		const allocator = anAllocator({ range: range(10, 9 + names.length) });
		const { open, asked } = aHost();
		const listeners = [];
		for (const name of names) listeners.push(await allocator.allocate(udp(name), open));
		for (const [index, name] of names.entries()) {
			allocator.release(udp(name), listeners[index]?.proxyPort ?? toPort(1));
		}
		asked.length = 0;
		return { allocator, open, asked };
	}

	it("gives a port to its former ServicePort sooner than to another one", async () => {
		const { allocator, open } = await formerly("a", "b");
		expect((await allocator.allocate(udp("b"), open)).proxyPort).toBe(11);
		expect((await allocator.allocate(udp("c"), open)).proxyPort).toBe(10);
	});

	it("gives another one's port only when no other is left, the one released first", async () => {
		const { allocator, open } = await formerly("a", "b", "c");
		await allocator.allocate(udp("c"), open);
		expect((await allocator.allocate(udp("d"), open)).proxyPort).toBe(10);
		expect((await allocator.allocate(udp("e"), open)).proxyPort).toBe(11);
		await expect(allocator.allocate(udp("f"), open)).rejects.toThrow(ProxyPortsExhaustedError);
	});

	it("asks the kernel again when it gives one, and takes it in the end", async () => {
		const allocator = anAllocator();
		allocator.release(udp("a"), toPort(40_000));
		expect((await allocator.allocate(udp("b"), aHost().open)).proxyPort).toBe(40_001);
		const closed: number[] = [];
		const always = async () => {
			const listener = await aHost().open(0);
			return { ...listener, close: () => closed.push(listener.proxyPort) };
		};
		expect((await allocator.allocate(udp("c"), always)).proxyPort).toBe(40_000);
		expect(closed).toHaveLength(16);
	});

	it("does not care for TCP, whose connections stay with the one who accepted them", async () => {
		const allocator = anAllocator();
		allocator.release(cart, toPort(40_000));
		expect((await allocator.allocate(stock, aHost().open)).proxyPort).toBe(40_000);
	});
});

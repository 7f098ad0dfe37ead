import { describe, expect, test as it } from "vitest";
import { createBalancer } from "../../../src/balancing/balancer.ts";
import type { Balancer } from "../../../src/balancing/pick.ts";
import { DescriptorBudget } from "../../../src/proxies/descriptor-budget.ts";
import type { ListenTarget, ServicePortListener } from "../../../src/proxies/listener.ts";
import { ListenerTable } from "../../../src/proxies/listener-table.ts";
import { PortAllocator } from "../../../src/proxies/port-allocator.ts";
import type { IpAddress } from "../../../src/services/address.ts";
import { toPort } from "../../../src/services/port.ts";
import type { ServicePort } from "../../../src/services/service-port.ts";
import { anAddress, anEndpointAt, aServicePort } from "./builders.ts";

/** A table whose listeners are only noted down. */
class World {
	readonly budget = new DescriptorBudget(100);
	readonly events: string[] = [];
	address: IpAddress | undefined;
	/** Why the next listeners cannot be opened. */
	fault: Error | undefined;
	readonly failing = new Map<string, string[]>();
	/** Of every listener that was opened, in order. */
	readonly balancers: Balancer[] = [];
	onOpen: () => void = () => {};
	#nextPort = 40_000;
	readonly table = new ListenerTable({
		ports: new PortAllocator({ range: undefined, preferred: new Map(), random: () => 0 }),
		budget: this.budget,
		addressFor: () => this.address,
		open: (servicePort, target) => this.#open(servicePort, target),
	});

	#open({ serviceName }: ServicePort, target: ListenTarget): Promise<ServicePortListener> {
		if (this.fault !== undefined) return Promise.reject(this.fault);
		const proxyPort = target.port === 0 ? toPort(this.#nextPort++) : target.port;
		this.events.push(`open ${serviceName} ${target.address ?? "*"}:${proxyPort}`);
		this.onOpen();
		const sibling = target.sibling?.balancer;
		const balancer = createBalancer({ now: () => 0, random: () => 0, sibling });
		this.balancers.push(balancer);
		return Promise.resolve({
			proxyPort,
			listenAddress: target.address,
			balancer,
			failingEndpoints: () => this.failing.get(serviceName) ?? [],
			update: () => this.events.push(`update ${serviceName}`),
			close: () => this.events.push(`close ${serviceName} ${target.address ?? "*"}`),
		});
	}
}

const cart = aServicePort({ name: "cart" });
const stock = aServicePort({ name: "stock" });

describe("ListenerTable", () => {
	it("tells a listener only of a ServicePort that is another object", async () => {
		const { table, events } = new World();
		await table.reconcile([cart]);
		await table.reconcile([cart]);
		await table.reconcile([{ ...cart }]);
		expect(events).toEqual(["open cart *:40000", "update cart"]);
	});

	it("reports what cannot be opened, opens the others and tries again", async () => {
		const world = new World();
		world.fault = new Error("listen EAFNOSUPPORT");
		const failed = await world.table.reconcile([cart, stock]);
		expect(failed.bindings).toEqual([]);
		expect(failed.problems).toEqual([
			{ key: cart.key, name: "shop/cart:http", error: world.fault },
			{ key: stock.key, name: "shop/stock:http", error: world.fault },
		]);
		world.fault = undefined;
		expect((await world.table.reconcile([cart, stock])).bindings).toHaveLength(2);
		expect(world.budget.used).toBe(2);
	});

	it("answers with the same list of bindings while they say the same", async () => {
		const { table } = new World();
		const served = { ...cart, endpoints: [anEndpointAt("10.244.1.2", 8080)] };
		const { bindings } = await table.reconcile([served, stock]);
		const others = [anEndpointAt("10.244.1.3", 8080)];
		const moved = await table.reconcile([{ ...served, endpoints: others }, stock]);
		expect(moved.bindings).toBe(bindings);
		for (const change of [{ endpoints: [] }, { name: "shop/cart:web" }, { port: toPort(81) }]) {
			const changed = (await table.reconcile([{ ...served, ...change }, stock])).bindings;
			expect(changed).not.toBe(bindings);
			expect(changed[1]).toBe(bindings[1]);
			expect((await table.reconcile([served, stock])).bindings).toEqual(bindings);
		}
		expect((await table.reconcile([stock])).bindings).toEqual([bindings[1]]);
	});

	it("answers with bindings of what is wanted only", async () => {
		const { table } = new World();
		await table.reconcile([cart, stock]);
		const { bindings } = await table.reconcile([stock]);
		expect(bindings.map(({ name }) => name)).toEqual(["shop/stock:http"]);
		expect(table.size).toBe(2);
	});

	it("names the failing endpoints of those that have some", async () => {
		const { table, failing } = new World();
		await table.reconcile([cart, stock]);
		failing.set("stock", ["10.2.1.2:8080"]);
		expect(table.failingEndpoints()).toEqual(new Map([[stock.key, ["10.2.1.2:8080"]]]));
	});

	it("closes what is neither wanted nor referenced, once", async () => {
		const { table, events, budget } = new World();
		await table.reconcile([cart, stock]);
		await table.reconcile([]);
		table.retire(new Set([cart.key]));
		table.retire(new Set([cart.key]));
		expect(events.filter((event) => event.startsWith("close"))).toEqual(["close stock *"]);
		expect(budget.used).toBe(1);
	});

	it("opens another listener at a new address first, and closes the old at the next retire", async () => {
		const world = new World();
		world.address = anAddress("192.168.0.1");
		await world.table.reconcile([cart]);
		world.address = anAddress("192.168.0.2");
		const { bindings } = await world.table.reconcile([cart]);
		expect(bindings).toMatchObject([{ listenAddress: "192.168.0.2" }]);
		expect(world.table.size).toBe(2);
		world.table.retire(new Set([cart.key]));
		expect(world.events).toEqual([
			"open cart 192.168.0.1:40000",
			"open cart 192.168.0.2:40001",
			"close cart 192.168.0.1",
		]);
		expect(world.budget.used).toBe(1);
	});

	it("keeps the old listener while none can be opened at the new address", async () => {
		const world = new World();
		world.address = anAddress("192.168.0.1");
		await world.table.reconcile([cart]);
		world.address = anAddress("192.168.0.2");
		world.fault = new Error("listen EADDRNOTAVAIL");
		const outcome = await world.table.reconcile([cart]);
		expect(outcome.bindings).toMatchObject([{ listenAddress: "192.168.0.1" }]);
		expect(outcome.problems).toHaveLength(1);
	});

	it("leaves nothing open when it is closed in the middle of a reconcile", async () => {
		const world = new World();
		world.onOpen = () => world.table.closeAll();
		await world.table.reconcile([cart, stock]);
		expect(world.events).toEqual(["open cart *:40000", "close cart *"]);
		expect(world.table.size).toBe(0);
		expect(world.budget.used).toBe(0);
	});

	it("lets the event loop turn while it opens many", async () => {
		const { table } = new World();
		let turns = 0;
		const immediate = () => {
			turns += 1;
			next = setImmediate(immediate);
		};
		let next = setImmediate(immediate);
		await table.reconcile(Array.from({ length: 200 }, (_, i) => aServicePort({ name: `s${i}` })));
		clearImmediate(next);
		expect(turns).toBeGreaterThanOrEqual(2);
	});
});

describe("ListenerTable and session affinity", () => {
	const local = aServicePort({ name: "cart", pool: "local" });

	it.each([
		["the pool of all first", [cart, local]],
		["the pool of this node first", [local, cart]],
	])("has one for both pools of a port: %s", async (_what, wanted) => {
		const { table, balancers } = new World();
		await table.reconcile([...wanted, stock]);
		const [one, other, third] = balancers;
		expect(one?.affinity).toBe(other?.affinity);
		expect(third?.affinity).not.toBe(one?.affinity);
	});

	it("has one for both also where the second pool comes later", async () => {
		const { table, balancers } = new World();
		await table.reconcile([local]);
		await table.reconcile([local, cart]);
		expect(balancers[1]?.affinity).toBe(balancers[0]?.affinity);
	});

	it("has another one for the same port of the other family or protocol", async () => {
		const { table, balancers } = new World();
		await table.reconcile([
			cart,
			aServicePort({ name: "cart", protocol: "udp", pool: "local" }),
			aServicePort({ name: "cart", family: "ipv6", pool: "local" }),
		]);
		expect(new Set(balancers.map(({ affinity }) => affinity)).size).toBe(3);
	});

	it.each([
		["of a port with one pool", [cart]],
		["of a port with two", [cart, local]],
	])(
		"stays when a listener is replaced since the node's address has changed: %s",
		async (_what, wanted) => {
			const world = new World();
			world.address = anAddress("192.168.0.1");
			await world.table.reconcile(wanted);
			world.address = anAddress("192.168.0.2");
			await world.table.reconcile(wanted);
			world.table.retire(new Set());
			expect(world.balancers).toHaveLength(2 * wanted.length);
			expect(new Set(world.balancers.map(({ affinity }) => affinity)).size).toBe(1);
		},
	);

	it("is forgotten with the last of a port's listeners", async () => {
		const { table, balancers } = new World();
		await table.reconcile([cart]);
		await table.reconcile([]);
		table.retire(new Set());
		await table.reconcile([cart]);
		expect(balancers[1]?.affinity).not.toBe(balancers[0]?.affinity);
	});
});

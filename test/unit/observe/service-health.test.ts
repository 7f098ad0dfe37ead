import type { Socket } from "node:net";
import { networkInterfaces } from "node:os";
import { setImmediate } from "node:timers/promises";
import { afterEach, describe, expect, test as it, vi } from "vitest";
import {
	createServiceHealthServers,
	type ServiceHealthServersOptions,
} from "../../../src/observe/service-health.ts";
import { silentLog } from "../../../src/shared/log.ts";
import { aLoopbackAddress } from "../../kit/loopback-addresses.ts";
import { aCapturedLog } from "./captured-log.ts";
import { aServerAt, ask, opened, refusalAt, served, statusOf } from "./health-probe.ts";

const cleanUps: (() => unknown)[] = [];
afterEach(async () => {
	// oxlint-disable-next-line no-await-in-loop -- in order
	for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp();
});

function someAddresses(): readonly [string, string, string] {
	return [aLoopbackAddress(), aLoopbackAddress(), aLoopbackAddress()];
}

const PORT = 31_797;

const hasIpv6 = Object.values(networkInterfaces()).some((all) =>
	all?.some(({ address }) => address === "::1"),
);

function anAccount(limit = 10_000) {
	const account = { limit, used: 0 };
	return {
		account,
		descriptors: {
			limit,
			take(count: number) {
				account.used += count;
			},
			give(count: number) {
				account.used -= count;
			},
		},
	};
}

function someServers(options: Partial<ServiceHealthServersOptions> = {}) {
	const servers = createServiceHealthServers({
		isHealthy: () => true,
		descriptors: anAccount().descriptors,
		log: silentLog,
		retry: { initialMs: 5, maxMs: 20 },
		...options,
	});
	cleanUps.push(() => servers.close());
	return servers;
}

const cart = { namespace: "shop", name: "cart", port: PORT, localEndpoints: 2 };

/** A connection that asks for nothing. */
async function held(address: string): Promise<Socket> {
	const socket = await opened(address, PORT);
	cleanUps.push(() => socket.destroy());
	return socket;
}

describe("ServiceHealthServers.reconcile()", () => {
	it("keeps the socket of a port whose count or Service changes (classic 9.7.4)", async () => {
		const [here] = someAddresses();
		const { account, descriptors } = anAccount();
		const take = vi.spyOn(descriptors, "take");
		const servers = someServers({ descriptors });
		servers.reconcile([cart], [here]);
		await served(here, PORT);
		// A connection from before is answered with what is true when it asks.
		const socket = await held(here);
		servers.reconcile([{ ...cart, localEndpoints: 0 }], [here]);
		servers.reconcile([{ ...cart, name: "basket", localEndpoints: 0 }], [here]);
		socket.setEncoding("utf8").write("GET / HTTP/1.0\r\n\r\n");
		const text = (await socket.toArray()).join("");
		expect(text).toMatch(/^HTTP\/1\.1 503 .*"name": "basket".*"localEndpoints": 0/s);
		expect(take).toHaveBeenCalledTimes(1);
		expect(account.used).toBeGreaterThan(0);
	});

	it("closes what is not wanted any more, and serves it again when it is (classic 9.7.4)", async () => {
		const [here] = someAddresses();
		const { account, descriptors } = anAccount();
		const servers = someServers({ descriptors });
		const web = { ...cart, name: "web", port: PORT + 1 };
		servers.reconcile([cart, web], [here]);
		await served(here, PORT);
		await served(here, PORT + 1);
		servers.reconcile([web], [here]);
		expect(await refusalAt(here, PORT)).toBe("ECONNREFUSED");
		expect(await statusOf(here, PORT + 1)).toBe(200);
		expect(servers.openPorts()).toBe(1);
		servers.reconcile([{ ...web, port: PORT + 2, localEndpoints: 0 }], [here]);
		await served(here, PORT + 2);
		expect(await refusalAt(here, PORT + 1)).toBe("ECONNREFUSED");
		expect(await statusOf(here, PORT + 2)).toBe(503);
		servers.reconcile([], [here]);
		expect([servers.openPorts(), account.used]).toEqual([0, 0]);
		servers.reconcile([cart], [here]);
		await served(here, PORT);
		expect(await statusOf(here, PORT)).toBe(200);
	});

	it("ends with the last of many that come at once", async () => {
		const [one, two] = someAddresses();
		const { log, lines } = aCapturedLog();
		const servers = someServers({ log });
		for (let turn = 0; turn < 20; turn += 1) {
			servers.reconcile([cart], [one]);
			servers.reconcile([], [one]);
			servers.reconcile([cart], [two, one]);
			servers.reconcile([cart], [two]);
		}
		await served(two, PORT);
		expect(await refusalAt(one, PORT)).toBe("ECONNREFUSED");
		expect(await statusOf(two, PORT)).toBe(200);
		expect([lines, servers.problems(), servers.openPorts()]).toEqual([[], [], 1]);
		servers.reconcile([], [two]);
		expect(await refusalAt(two, PORT)).toBe("ECONNREFUSED");
	});

	it("leaves alone an address that stays when others come and go", async () => {
		const [one, two, three] = someAddresses();
		const servers = someServers();
		servers.reconcile([cart], [one, two]);
		await served(one, PORT);
		await served(two, PORT);
		const kept = await held(two);
		const lost = await held(one);
		const gone = vi.fn<() => void>();
		lost.on("close", gone);
		servers.reconcile([cart], [three, two, two]);
		await served(three, PORT);
		expect(await refusalAt(one, PORT)).toBe("ECONNREFUSED");
		await vi.waitFor(() => expect(gone).toHaveBeenCalled());
		kept.setEncoding("utf8").write("GET / HTTP/1.0\r\n\r\n");
		expect((await kept.toArray()).join("")).toMatch(/^HTTP\/1\.1 200/);
	});

	// Below the ports that the kernel gives away, and most likely nobody's.
	const port = 20_000 + (process.pid % 10_000);

	it("serves every address when none is given, and takes the port over from there", async () => {
		const [one, two] = someAddresses();
		const servers = someServers();
		servers.reconcile([{ ...cart, port }], []);
		await served(one, port);
		expect(await statusOf(two, port)).toBe(200);
		servers.reconcile([{ ...cart, port }], [two]);
		await served(two, port);
		expect(await refusalAt(one, port)).toBe("ECONNREFUSED");
		servers.reconcile([{ ...cart, port }], []);
		await served(one, port);
		expect(servers.problems()).toEqual([]);
	});

	it.skipIf(!hasIpv6)("serves every address of both families", async () => {
		const [here] = someAddresses();
		someServers().reconcile([{ ...cart, port }], []);
		await served(here, port);
		expect(await statusOf("::1", port)).toBe(200);
	});

	it("gives a port that two Services want to the first, and tells of the other", async () => {
		const [here] = someAddresses();
		const { log, lines } = aCapturedLog();
		const servers = someServers({ log });
		const late = { ...cart, name: "late" };
		servers.reconcile([cart, late], [here]);
		servers.reconcile([cart, late], [here]);
		await served(here, PORT);
		expect(await ask(here, PORT)).toContain('"name": "cart"');
		const error = `port ${PORT} is the health check of shop/cart`;
		expect(servers.problems()).toEqual([{ namespace: "shop", name: "late", port: PORT, error }]);
		expect(lines).toEqual([
			{
				level: "warn",
				message: "health checks of Services are left out",
				fields: expect.objectContaining({ error: `shop/late: ${error}` }),
			},
		]);
		servers.reconcile([late], [here]);
		expect(await ask(here, PORT)).toContain('"name": "late"');
		expect(servers.problems()).toEqual([]);
		expect(lines.at(-1)).toMatchObject({
			level: "info",
			message: "no health check of a Service is left out any more",
		});
	});
});

describe("a health check port that cannot be bound", () => {
	it("is said once, tried again, and served when it is free", async () => {
		const [taken, free] = someAddresses();
		const { log, lines } = aCapturedLog();
		const blocker = await aServerAt(taken, PORT);
		cleanUps.push(() => blocker.close());
		const servers = someServers({ log });
		const web = { ...cart, name: "web", port: PORT + 1 };
		servers.reconcile([cart, web], [taken, free]);
		await served(free, PORT);
		await served(taken, PORT + 1);
		await vi.waitFor(() => expect(lines).toHaveLength(1));
		const error = `listen EADDRINUSE: address already in use ${taken}:${PORT}`;
		expect(lines[0]).toMatchObject({
			level: "warn",
			message: "cannot serve a Service's health check",
			fields: { object: "Service shop/cart", port: PORT, error },
		});
		expect(servers.problems()).toEqual([{ namespace: "shop", name: "cart", port: PORT, error }]);
		expect(servers.openPorts()).toBe(2);
		expect(await statusOf(free, PORT)).toBe(200);
		blocker.close();
		await vi.waitFor(() => expect(servers.problems()).toEqual([]));
		expect(await statusOf(taken, PORT)).toBe(200);
		expect(lines).toHaveLength(2);
		expect(lines[1]).toMatchObject({
			level: "info",
			message: "the Service's health check is served now",
		});
	});

	it("is not tried more often because its counts change", async () => {
		const [taken] = someAddresses();
		const blocker = await aServerAt(taken, PORT);
		cleanUps.push(() => blocker.close());
		const servers = someServers({ retry: { initialMs: 60_000, maxMs: 60_000 } });
		servers.reconcile([cart], [taken]);
		await vi.waitFor(() => expect(servers.problems()).toHaveLength(1));
		blocker.close();
		for (let count = 0; count < 100; count += 1) {
			servers.reconcile([{ ...cart, localEndpoints: count }], [taken]);
			// oxlint-disable-next-line no-await-in-loop -- one after the other
			await setImmediate();
		}
		expect([servers.openPorts(), servers.problems().length]).toEqual([0, 1]);
	});
});

describe("ServiceHealthServers", () => {
	it("let others have their turn while they open hundreds of ports", async () => {
		const [here] = someAddresses();
		const servers = someServers();
		const wanted = Array.from({ length: 200 }, (_, n) => ({ ...cart, port: PORT + n }));
		servers.reconcile(wanted, [here]);
		let turns = 0;
		for (; servers.openPorts() < wanted.length && turns < 10_000; turns += 1) {
			// oxlint-disable-next-line no-await-in-loop -- one after the other
			await setImmediate();
		}
		expect(turns).toBeGreaterThan(10);
		expect(servers.openPorts()).toBe(200);
	});

	it("take an eighth of the descriptors for sockets, and tell what is left out", async () => {
		const [one, two] = someAddresses();
		const { log, lines } = aCapturedLog();
		const { account, descriptors } = anAccount(48);
		const servers = someServers({ log, descriptors });
		const wanted = [0, 1, 2, 3, 4].map((n) => ({ ...cart, name: `s${n}`, port: PORT + n }));
		servers.reconcile(wanted, [one, two]);
		await served(two, PORT + 2);
		expect(servers.openPorts()).toBe(3);
		// Six sockets, and six connections.
		expect(account.used).toBe(12);
		const error = "more than 6 listening sockets for health checks";
		expect(servers.problems().map((problem) => [problem.name, problem.error])).toEqual([
			["s3", error],
			["s4", error],
		]);
		expect(lines[0]?.fields).toMatchObject({
			error: `shop/s3: ${error}; shop/s4: ${error}`,
			services: 2,
		});
		servers.reconcile(wanted, [one]);
		await served(one, PORT + 4);
		expect([servers.openPorts(), account.used, servers.problems()]).toEqual([5, 11, []]);
	});

	it("answer although others hold more connections than there may be", async () => {
		const [one, two] = someAddresses();
		const { log, lines } = aCapturedLog();
		const servers = someServers({ log, descriptors: anAccount(64).descriptors });
		servers.reconcile([cart, { ...cart, name: "web", port: PORT + 1 }], [one, two]);
		await served(two, PORT + 1);
		const closed = vi.fn<() => void>();
		for (let index = 0; index < 20; index += 1) {
			// oxlint-disable-next-line no-await-in-loop -- one after the other
			(await held(index % 2 === 0 ? one : two)).on("close", closed);
		}
		await vi.waitFor(() => expect(closed).toHaveBeenCalledTimes(12));
		expect(await statusOf(one, PORT)).toBe(200);
		expect(await statusOf(two, PORT + 1)).toBe(200);
		expect(lines).toEqual([
			{
				level: "warn",
				message: "HTTP connections are closed to bound their number",
				fields: expect.objectContaining({ error: "more than 8 at a time" }),
			},
		]);
	});

	it("close with nothing left, whatever goes on, and serve nothing any more", async () => {
		const [one, two, taken] = someAddresses();
		const blocker = await aServerAt(taken, PORT);
		cleanUps.push(() => blocker.close());
		const { account, descriptors } = anAccount();
		const servers = someServers({ descriptors });
		servers.reconcile([cart], [one, taken]);
		await served(one, PORT);
		const silent = await held(one);
		const gone = vi.fn<() => void>();
		silent.on("close", gone);
		servers.reconcile([cart], [one, two, taken]);
		await Promise.all([servers.close(), servers.close()]);
		servers.reconcile([cart], [one]);
		expect(await refusalAt(one, PORT)).toBe("ECONNREFUSED");
		expect(await refusalAt(two, PORT)).toBe("ECONNREFUSED");
		await vi.waitFor(() => expect(gone).toHaveBeenCalled());
		expect([account.used, servers.openPorts(), servers.problems()]).toEqual([0, 0, []]);
	});
});

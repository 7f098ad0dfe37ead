import { describe, expect, test as it } from "vitest";
import { Splice, type SpliceEnd } from "../../../../src/proxies/stream/splice.ts";
import { until } from "../../../conformance/tcp-lab.ts";
import { aSocketPair, closed, systemError } from "./sockets.ts";

async function aSplice() {
	const [client, endpoint] = [await aSocketPair(), await aSocketPair()];
	const ends: SpliceEnd[] = [];
	const splice = new Splice(client.near, endpoint.near, (end) => ends.push(end));
	return { splice, ends, client, endpoint };
}

describe("Splice", () => {
	it("holds at most about 128 KiB for an endpoint that does not read", async () => {
		const { splice, client, endpoint } = await aSplice();
		client.far.write(Buffer.alloc(32 * 1024 * 1024));
		let most = 0;
		await until(() => {
			most = Math.max(most, endpoint.near.writableLength + client.near.readableLength);
			return splice.isHeldBack && !splice.hasMoved();
		}, "the client to be held back");
		expect(most).toBeGreaterThan(0);
		expect(most).toBeLessThanOrEqual(192 * 1024);
	});

	it.each(["client", "endpoint"] as const)(
		"tells a %s that vanished from one that hung up (case 9c)",
		async (side) => {
			for (const [code, end] of [
				["ETIMEDOUT", "vanished"],
				["EHOSTUNREACH", "vanished"],
				["ECONNRESET", "reset"],
				["EPIPE", "reset"],
			] as const) {
				const { ends, ...pairs } = await aSplice();
				const socket = pairs[side].near;
				socket.destroy(systemError(code));
				await closed(socket);
				expect(ends[0]).toBe(`${side}-${end}`);
			}
		},
	);

	it("finds a reset of a side that it does not read", async () => {
		const { splice, ends, client } = await aSplice();
		client.far.write(Buffer.alloc(32 * 1024 * 1024));
		await until(() => splice.isHeldBack && !splice.hasMoved(), "the client to be held back");
		client.far.resetAndDestroy();
		await closed(client.far);
		expect(ends).toEqual([]);
		splice.probe();
		await until(() => ends.length > 0, "the end");
		expect(ends[0]).toBe("client-reset");
	});

	it("sends nothing to a side that it probes", async () => {
		const { splice, client, endpoint } = await aSplice();
		let received = 0;
		client.far.on("data", () => {
			received += 1;
		});
		client.far.resume();
		client.far.write(Buffer.alloc(32 * 1024 * 1024));
		await until(() => splice.isHeldBack && !splice.hasMoved(), "the client to be held back");
		for (let index = 0; index < 10; index += 1) splice.probe();
		endpoint.far.write("x");
		await until(() => received > 0, "the endpoint's byte");
		expect(client.far.bytesRead).toBe(1);
	});

	it("counts what the kernel has taken, each way", async () => {
		const { splice, client, endpoint } = await aSplice();
		client.far.write("hello");
		endpoint.far.write("hi");
		await until(() => splice.bytesIn === 5 && splice.bytesOut === 2, "the bytes");
		expect(splice.hasMoved()).toBe(true);
		expect(splice.hasMoved()).toBe(false);
	});
});

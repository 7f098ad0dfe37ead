import { once } from "node:events";

import { expect, test as it } from "vitest";
import { resetSocket } from "../../../../src/proxies/stream/reset-socket.ts";
import { aSocketPair, closed } from "./sockets.ts";

/** How the peer sees it. */
async function seenBy(socket: Awaited<ReturnType<typeof aSocketPair>>["far"]): Promise<unknown> {
	socket.resume();
	const [error]: unknown[] = await once(socket, "error").catch((caught: unknown) => [caught]);
	return error;
}

it("resets a connection, whatever is unsent", async () => {
	const { near, far } = await aSocketPair();
	near.on("error", () => {});
	near.write(Buffer.alloc(20_000_000));
	near.end();
	const seen = seenBy(far);
	resetSocket(near);
	expect(await seen).toMatchObject({ code: "ECONNRESET" });
});

it("resets a connection whose shutdown is under way, and closes its descriptor", async () => {
	const { near, far } = await aSocketPair();
	const errors: unknown[] = [];
	near.on("error", (error) => errors.push(error));
	const nearClosed = closed(near);
	near.end();
	await new Promise((resolve) => process.nextTick(resolve));
	expect(near.writableFinished).toBe(false);
	resetSocket(near);
	resetSocket(near);
	await nearClosed;
	// With a FIN before it, the reset is seen by who sends.
	far.resume();
	await once(far, "end");
	const farClosed = closed(far);
	far.write("anybody there?");
	await farClosed;
	expect(errors).toEqual([]);
	expect(process.getActiveResourcesInfo()).not.toContain("TCPSocketWrap");
});

it("does nothing to a socket that is destroyed (case 37e)", async () => {
	const { near } = await aSocketPair();
	near.on("error", () => {});
	near.destroy();
	expect(() => resetSocket(near)).not.toThrow();
});

import { once } from "node:events";
import { createServer } from "node:net";

import { afterEach, expect, test as it, onTestFinished } from "vitest";
import { type DialResult, dial } from "../../../../src/proxies/stream/dial.ts";
import {
	aRefusingEndpoint,
	SilentEndpoint,
	TestEndpoint,
} from "../../../conformance/tcp-endpoints.ts";
import { anEndpointAt } from "../builders.ts";

const results: DialResult[] = [];
afterEach(() => {
	for (const result of results.splice(0)) {
		if (result.outcome === "connected") result.socket.destroy();
	}
});

function dialed(...[endpoint, timeoutMs]: [Parameters<typeof dial>[0], number]) {
	return new Promise<DialResult>((resolve) => {
		dial(endpoint, timeoutMs, (result) => {
			results.push(result);
			if (result.outcome === "connected") result.socket.on("error", () => {});
			resolve(result);
		});
	});
}

it("gives a connected socket, which is open both ways by itself", async () => {
	const server = await TestEndpoint.open((socket) => socket.end());
	onTestFinished(() => server.close());
	const result = await dialed(server.endpoint, 1000);
	expect(result).toMatchObject({ outcome: "connected", socket: { allowHalfOpen: true } });
});

it("says refused", async () => {
	expect(await dialed(await aRefusingEndpoint(), 1000)).toEqual({
		outcome: "refused",
		errorCode: "ECONNREFUSED",
	});
});

it("says timeout when nobody answers in time", async () => {
	const silent = await SilentEndpoint.open();
	onTestFinished(() => silent.close());
	expect(await dialed(silent.endpoint, 20)).toEqual({ outcome: "timeout", errorCode: undefined });
});

it("takes the answer that came in time although this process looks late", async () => {
	const server = await TestEndpoint.open(() => {});
	onTestFinished(() => server.close());
	const result = dialed(server.endpoint, 20);
	// In the first tick node:net connects; then the process is held up beyond the timeout.
	process.nextTick(() =>
		process.nextTick(() => {
			for (const beganMs = performance.now(); performance.now() - beganMs < 60; );
		}),
	);
	expect(await result).toMatchObject({ outcome: "connected" });
});

it("says unreachable of an address that leads nowhere", async () => {
	// A broadcast address is none that one can connect to: connect(2) says EACCES or ENETUNREACH.
	expect(await dialed(anEndpointAt("255.255.255.255", 80), 1000)).toMatchObject({
		outcome: "unreachable",
	});
});

it("says nothing after it was given up", async () => {
	const server = await TestEndpoint.open(() => {});
	onTestFinished(() => server.close());
	let calls = 0;
	const giveUp = dial(server.endpoint, 1000, () => {
		calls += 1;
	});
	giveUp();
	giveUp();
	const after = createServer().listen(0, "127.0.0.1");
	await once(after, "listening");
	after.close();
	await dialed(server.endpoint, 1000);
	expect(calls).toBe(0);
});

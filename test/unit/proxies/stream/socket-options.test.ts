import { expect, test as it } from "vitest";
import { SOCKET_OPTIONS } from "../../../../src/proxies/stream/socket-options.ts";

it("both legs: small writes go at once, each direction ends by itself, dead peers are found", () => {
	expect(SOCKET_OPTIONS).toEqual({
		allowHalfOpen: true,
		noDelay: true,
		keepAlive: true,
		keepAliveInitialDelay: 15_000,
	});
});

import { connect, type Socket } from "node:net";
import { expect, test as it } from "vitest";
import { HttpListener } from "../../../src/observe/http-listener.ts";
import { aLoopbackAddress } from "../../kit/loopback-addresses.ts";
import { aCapturedLog } from "./captured-log.ts";

it("HttpListener that is closed while it is being bound ends with nothing open", async () => {
	const { log, lines } = aCapturedLog();
	const where = { address: aLoopbackAddress(), port: 31_793 };
	const handle = (): void => {};
	const listener = new HttpListener({
		...where,
		name: "health",
		handle,
		hardFail: true,
		maxConnections: 128,
		log,
	});
	const opening = listener.open();
	await listener.close();
	expect(await errorOfConnecting(where.address, where.port)).toBe("ECONNREFUSED");
	await opening;
	expect(listener.boundTo()).toBeUndefined();
	expect(lines).toEqual([]);
});

async function errorOfConnecting(address: string, port: number): Promise<string | undefined> {
	let socket: Socket | undefined;
	try {
		return await new Promise((resolve) => {
			socket = connect(port, address, () => resolve(undefined));
			socket.on("error", (error: NodeJS.ErrnoException) => resolve(error.code));
		});
	} finally {
		socket?.destroy();
	}
}

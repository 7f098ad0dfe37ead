import { afterEach, expect, test as it } from "vitest";
import { createSyscallEngine } from "../../../../src/proxies/syscall/syscall-engine.ts";
import { startConnect } from "../../../../src/proxies/syscall/tcp-sockets.ts";
import { close } from "../../../../src/system/libc.ts";
import { TcpLab, until } from "../../../conformance/tcp-lab.ts";
import { addressAt, heard, say } from "./bare-sockets.ts";

const CLIENTS = 60;
const NEWCOMERS_FOR_EACH = 10;
const ROUNDS = 4;

let lab: TcpLab | undefined;
afterEach(() => lab?.close());

async function answer(fd: number): Promise<string> {
	let text = "EAGAIN";
	await until(() => {
		text = heard(fd);
		return text !== "EAGAIN";
	}, "an answer");
	return text;
}

it.each([
	["with io_uring", true],
	["without io_uring", false],
])("clients have their own answers beside a storm of new ones (%s)", async (_name, ioUring) => {
	lab = new TcpLab(({ descriptorLimit: _unlimited, ...options }) =>
		createSyscallEngine({
			...options,
			bindAddress: undefined,
			udp: { idleMs: 1000, firstAnswerMs: 1000, maxFlows: 10 },
			workers: 1,
			ioUring,
		}),
	);
	const echo = await lab.endpoint((socket) => socket.pipe(socket));
	const port = await lab.serve({ endpoints: [echo.endpoint] });
	const to = addressAt(port);
	// By system calls: node:net would not make so many at once.
	const clients = Array.from({ length: CLIENTS }, () => startConnect(to, false));
	for (let round = 0; round < ROUNDS; round += 1) {
		const texts = clients.map((_, index) => `client ${index} in round ${round}`);
		const storm = clients.flatMap((fd, index) => {
			say(fd, texts[index] ?? "");
			return Array.from({ length: NEWCOMERS_FOR_EACH }, () => startConnect(to, false));
		});
		// oxlint-disable-next-line no-await-in-loop -- one round after the other
		expect(await Promise.all(clients.map(answer))).toEqual(texts);
		for (const fd of storm) close(fd);
	}
	for (const fd of clients) close(fd);
});

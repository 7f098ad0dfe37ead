import { afterEach, beforeEach, describe, expect, test as it } from "vitest";
import { createBalancer } from "../../../../src/balancing/balancer.ts";
import type { RelayContext } from "../../../../src/proxies/listener.ts";
import { CallQueue } from "../../../../src/proxies/syscall/call-queue.ts";
import { ListenerWatch } from "../../../../src/proxies/syscall/listener-watch.ts";
import type { OpenMessage } from "../../../../src/proxies/syscall/messages.ts";
import { Poller, type PollHandler } from "../../../../src/proxies/syscall/poller.ts";
import { writeRelayedPort } from "../../../../src/proxies/syscall/relayed-port.ts";
import { TcpListeners } from "../../../../src/proxies/syscall/tcp-listeners.ts";
import { openListenSockets, startConnect } from "../../../../src/proxies/syscall/tcp-sockets.ts";
import {
	connectDatagramSocket,
	openDatagramSockets,
} from "../../../../src/proxies/syscall/udp-sockets.ts";
import type { UdpFault } from "../../../../src/proxies/udp-faults.ts";
import type { ConnectionRecord } from "../../../../src/services/connection-record.ts";
import type { Protocol } from "../../../../src/services/service-port.ts";
import { close, getIntOption, SO_ERROR, SOL_SOCKET } from "../../../../src/system/libc.ts";
import { anEndpoint, aUdpServicePort } from "../../../conformance/udp-lab.ts";
import { aServicePort } from "../builders.ts";
import { addressAt, heard, LOOPBACK, say } from "./bare-sockets.ts";
import { aUdpWorker } from "./udp-workers.ts";

const ENOSPC = 28;
const AT_ONCE_MS = 0;
const UDP_SERVICE_PORT = aUdpServicePort({ endpoints: [] });

/** As where fs.epoll.max_user_watches is reached. */
class CrowdedPoller extends Poller {
	isCrowded = true;
	readonly tried: number[] = [];

	override add(fd: number, events: number, handler: PollHandler): number {
		this.tried.push(fd);
		return this.isCrowded ? -ENOSPC : super.add(fd, events, handler);
	}
}

describe("a socket of a ServicePort that epoll has no room for", () => {
	const opened = new Set<number>();
	let calls: CallQueue;
	let poller: CrowdedPoller;
	let watch: ListenerWatch;
	let faults: string[];
	let later: (() => void)[];
	let listeners: TcpListeners;
	let accepted: number;
	beforeEach(() => {
		faults = [];
		later = [];
		accepted = 0;
		calls = new CallQueue(undefined);
		poller = new CrowdedPoller(calls, (fd) => opened.delete(fd));
		watch = new ListenerWatch({
			poller,
			after: (_durationMs, run) => later.push(run),
			onUnwatched: ({ port }, code) => faults.push(`${port.name} ${code}`),
		});
		listeners = new TcpListeners({
			watch,
			createBalancer: aBalancer,
			onAccepted(_served, fd) {
				opened.add(fd);
				accepted += 1;
			},
			onAcceptFault: (_served, code) => expect.unreachable(code),
		});
	});
	afterEach(() => {
		poller.close();
		calls.release();
		for (const fd of opened) close(fd);
		opened.clear();
	});

	const aBalancer = () => createBalancer({ now: () => 0, random: () => 0 });

	/** The time of those that rest has come. */
	function retry(): void {
		for (const run of later.splice(0)) run();
	}

	function openFor(protocol: Protocol, listener: number) {
		const open = protocol === "tcp" ? openListenSockets : openDatagramSockets;
		const { fds, port } = open({ family: "ipv4", address: LOOPBACK, port: 0 }, 1);
		const [fd = -1] = fds;
		opened.add(fd);
		const servicePort = protocol === "tcp" ? aServicePort() : UDP_SERVICE_PORT;
		const message: OpenMessage = {
			kind: "open",
			listener,
			fds,
			protocol,
			servicePort: writeRelayedPort(servicePort),
			sibling: undefined,
			turn: 0,
		};
		return { fd, port, message, name: servicePort.name };
	}

	function udpWorker(context: Partial<RelayContext>) {
		const parts = { poller, calls, watch, createBalancer: aBalancer };
		return aUdpWorker({ ...parts, opened: (fd) => opened.add(fd) }, context);
	}

	function connectTo(port: number): void {
		opened.add(startConnect(addressAt(port), false));
	}

	it("hears the clients that came meanwhile when there is room (TCP)", () => {
		const { message, port, name } = openFor("tcp", 1);
		listeners.open(message);
		connectTo(port);
		poller.wait(AT_ONCE_MS);
		expect(accepted).toBe(0);
		retry();
		expect(faults).toEqual([`${name} ENOSPC`, `${name} ENOSPC`]);
		poller.isCrowded = false;
		retry();
		poller.wait(AT_ONCE_MS);
		expect(accepted).toBe(1);
		expect(later).toEqual([]);
	});

	it("hears the clients that came meanwhile when there is room (UDP)", () => {
		const { message, port, name } = openFor("udp", 1);
		const udpFaults: UdpFault[] = [];
		const worker = udpWorker({ onUdpFault: (fault) => udpFaults.push(fault) });
		worker.open(message);
		const client = connectDatagramSocket(addressAt(port));
		opened.add(client);
		say(client, "hello");
		poller.wait(AT_ONCE_MS);
		expect(udpFaults).toEqual([]);
		poller.isCrowded = false;
		retry();
		poller.wait(AT_ONCE_MS);
		expect(faults).toEqual([`${name} ENOSPC`]);
		expect(udpFaults).toMatchObject([{ kind: "no-endpoint", count: 1 }]);
		worker.stop("stopped");
	});

	it("is not watched any more when another worker has it since", () => {
		const { message, fd } = openFor("tcp", 1);
		listeners.open(message);
		listeners.release(1);
		poller.isCrowded = false;
		retry();
		expect(poller.tried).toEqual([fd]);
	});

	it("is tried alone among many, each in its turn, and all when there is room", () => {
		const fds = [1, 2, 3].map((listener) => {
			const { fd, message } = openFor("tcp", listener);
			listeners.open(message);
			return fd;
		});
		for (let count = 0; count < 4; count += 1) retry();
		expect(poller.tried).toEqual([...fds, ...fds, fds[0]]);
		poller.isCrowded = false;
		retry();
		expect(poller.tried.slice(-fds.length)).toEqual([...fds.slice(1), fds[0]]);
		retry();
		expect(poller.tried).toHaveLength(10);
	});

	it("ends the flow that it was for, and leaves no descriptor behind", () => {
		poller.isCrowded = false;
		const endpoint = openFor("udp", 2);
		const { message, port } = openFor("udp", 1);
		const records: ConnectionRecord[] = [];
		const udpFaults: UdpFault[] = [];
		const worker = udpWorker({
			hooks: { onConnectionStart: () => {}, onConnectionEnd: (record) => records.push(record) },
			onUdpFault: (fault) => udpFaults.push(fault),
		});
		const endpoints = [anEndpoint("127.0.0.1", endpoint.port)];
		worker.open({ ...message, servicePort: writeRelayedPort(aUdpServicePort({ endpoints })) });
		const client = connectDatagramSocket(addressAt(port));
		opened.add(client);
		poller.isCrowded = true;
		say(client, "lost");
		poller.wait(AT_ONCE_MS);
		expect(records).toMatchObject([
			{ end: "overload", attempts: [{ outcome: "local-error", errorCode: "ENOSPC" }] },
		]);
		expect(udpFaults).toMatchObject([{ kind: "no-descriptor", errorCode: "ENOSPC" }]);
		// No socket any more: it is closed.
		expect(getIntOption(poller.tried.at(-1) ?? -1, SOL_SOCKET, SO_ERROR)).toBeLessThan(0);
		poller.isCrowded = false;
		say(client, "arrived");
		poller.wait(AT_ONCE_MS);
		calls.run();
		expect(heard(endpoint.fd)).toBe("arrived");
		worker.stop("stopped");
	});
});

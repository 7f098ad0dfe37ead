import { afterEach, beforeEach, describe, expect, test as it } from "vitest";
import { createBalancer } from "../../../../src/balancing/balancer.ts";
import { CallQueue } from "../../../../src/proxies/syscall/call-queue.ts";
import { DatagramExchange } from "../../../../src/proxies/syscall/datagram-exchange.ts";
import { ListenerWatch } from "../../../../src/proxies/syscall/listener-watch.ts";
import { Poller } from "../../../../src/proxies/syscall/poller.ts";
import { writeRelayedPort } from "../../../../src/proxies/syscall/relayed-port.ts";
import {
	connectDatagramSocket,
	openDatagramSockets,
} from "../../../../src/proxies/syscall/udp-sockets.ts";
import { close, EPOLLIN, epollCreate, eventfd } from "../../../../src/system/libc.ts";
import { anEndpoint, aUdpServicePort } from "../../../conformance/udp-lab.ts";
import { addressAt, heard, LOOPBACK, say, WAYS_OF_CALLING } from "./bare-sockets.ts";
import { aUdpWorker } from "./udp-workers.ts";

describe.each(WAYS_OF_CALLING)(
	"datagrams by calls that are queued and made %s",
	(_how, createRing) => {
		let calls: CallQueue;
		const opened = new Set<number>();
		beforeEach(() => {
			calls = new CallQueue(createRing());
		});
		afterEach(() => {
			calls.release();
			for (const fd of opened) close(fd);
			opened.clear();
		});

		function bound(port = 0): { readonly fd: number; readonly port: number } {
			const { fds, port: at } = openDatagramSockets({ family: "ipv4", address: LOOPBACK, port }, 1);
			const [fd = -1] = fds;
			opened.add(fd);
			return { fd, port: at };
		}

		function connected(port: number): number {
			const fd = connectDatagramSocket(addressAt(port));
			opened.add(fd);
			return fd;
		}

		function allHeard(fd: number): readonly string[] {
			const texts: string[] = [];
			for (let text = heard(fd); text !== "EAGAIN"; text = heard(fd)) {
				texts.push(text);
				// Any other error would be told for ever.
				if (texts.length === 10) break;
			}
			return texts;
		}

		it.each([0, 120, 128, 200])("come each from its own memory beside %i other calls", (others) => {
			const exchange = new DatagramExchange(calls);
			const poll = epollCreate();
			opened.add(poll);
			for (let count = 0; count < others; count += 1) {
				const fd = eventfd();
				opened.add(fd);
				calls.epollAdd(poll, fd, EPOLLIN, 1, { onCall: () => {} });
			}
			const texts = Array.from({ length: 20 }, (_, index) => `answer ${index}`);
			const got: string[] = [];
			for (const text of texts) {
				const receiver = bound();
				say(connected(receiver.port), text);
				exchange.receiveSingle(receiver.fd, {
					onCall: (_operation, result, slot) => got.push(String(exchange.takeSingle(slot, result))),
				});
			}
			calls.run();
			expect(got).toEqual(texts);
		});

		it("reach one endpoint only, when the first refuses and comes back meanwhile", () => {
			const poller = new Poller(calls, (fd) => opened.delete(fd));
			const watch = new ListenerWatch({
				poller,
				after: () => expect.unreachable("nothing rests"),
				onUnwatched: (_served, code) => expect.unreachable(code),
			});
			const worker = aUdpWorker({
				poller,
				calls,
				watch,
				opened: (fd) => opened.add(fd),
				createBalancer: () => createBalancer({ now: () => performance.now(), random: () => 0 }),
			});
			const dead = bound();
			close(dead.fd);
			opened.delete(dead.fd);
			const second = bound();
			const listener = bound();
			const endpoints = [dead, second].map(({ port }) => anEndpoint("127.0.0.1", port));
			worker.open({
				kind: "open",
				listener: 1,
				fds: [listener.fd],
				protocol: "udp",
				servicePort: writeRelayedPort(aUdpServicePort({ endpoints })),
				sibling: undefined,
				turn: 0,
			});
			const turn = () => {
				poller.wait(0);
				calls.run();
				poller.closeDue();
				worker.flush();
			};
			const client = connected(listener.port);
			say(client, "one");
			turn();
			const revived = bound(dead.port);
			say(client, "two");
			for (let count = 0; count < 3; count += 1) turn();
			expect(allHeard(revived.fd)).toEqual([]);
			expect(allHeard(second.fd)).toEqual(["one", "two"]);
			worker.stop("stopped");
			poller.close();
		});
	},
);

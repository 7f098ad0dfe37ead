/**
 * Opens connections and leaves them idle until its standard input ends. Prints how many were opened.
 *
 *     node scripts/bench/programs/idle-load.ts ADDRESS PORT COUNT
 */

import { SocketAddress } from "../../../src/proxies/syscall/socket-address.ts";
import { ipFamilyOf, parseIpAddress } from "../../../src/services/address.ts";
import {
	connect,
	EINPROGRESS,
	EPOLLOUT,
	EpollEvents,
	epollAdd,
	epollCreate,
	epollDelete,
	epollWait,
	getIntOption,
	SO_ERROR,
	SOCK_STREAM,
	SOL_SOCKET,
	socket,
} from "../../../src/system/libc.ts";

/** Connections that are being made at a time. */
const AT_ONCE = 200;
const WAIT_MS = 5_000;

const [addressText = "", port, countText] = process.argv.slice(2);
const count = Number(countText);
const address = parseIpAddress(addressText);
if (address === undefined) throw new TypeError(`Cannot connect to "${addressText}": no IP address`);
const to = new SocketAddress().set(ipFamilyOf(address), address, Number(port));
const poll = epollCreate();
const events = new EpollEvents(AT_ONCE);
let begun = 0;
let open = 0;
while (open < count) {
	for (; begun < count && begun - open < AT_ONCE; begun += 1) begin();
	const ready = epollWait(poll, events, WAIT_MS);
	if (ready <= 0) throw new Error(`Only ${open} of ${count} connections came to be`);
	for (let index = 0; index < ready; index += 1) finish(events.fd(index));
}
process.stdout.write(`${open}\n`);
process.stdin.resume();

function begin(): void {
	const fd = socket(to.domain, SOCK_STREAM);
	const result = fd < 0 ? fd : connect(fd, to.bytes, to.length);
	if (result < 0 && result !== -EINPROGRESS) throw new Error(`Cannot connect: error ${-result}`);
	epollAdd(poll, fd, EPOLLOUT, 0);
}

function finish(fd: number): void {
	const error = getIntOption(fd, SOL_SOCKET, SO_ERROR);
	if (error !== 0) throw new Error(`Connection ${open} of ${count} failed: error ${error}`);
	epollDelete(poll, fd);
	open += 1;
}

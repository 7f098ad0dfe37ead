import { getsockname } from "./libc.ts";
import { SocketAddress } from "./socket-address.ts";
import { systemError } from "./system-error.ts";

/** @throws what Node would throw where a call has failed. */
export function must(syscall: string, result: number): number {
	if (result < 0) throw systemError(syscall, result);
	return result;
}

/** The local port of a socket. */
export function portOf(fd: number): number {
	const own = new SocketAddress();
	must("getsockname", getsockname(fd, own.bytes));
	return own.port;
}

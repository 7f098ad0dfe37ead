import { arch } from "node:process";
import koffi from "koffi";

/*
 * System calls of Linux and posix_spawn through koffi, and nothing but them: the only file that knows koffi.
 *
 * Every call returns what the kernel returned, or -errno where it failed: no call throws, and none but
 * posixSpawn allocates. Buffers that are passed must stay alive until the call returns, which they do by themselves.
 * Layouts are those of x86-64 and arm64, both little-endian with 64-bit pointers.
 */

/** Of any C library that this process runs on. */
const library = koffi.load(null);

const errno = koffi.errno;

/** @param definition of a function that returns -1 and sets errno when it fails; posix_spawn's return the error's number. */
function call(definition: string): (...args: unknown[]) => number {
	const native: (...args: unknown[]) => number = library.func(definition);
	return native;
}

const raw = {
	socket: call("int socket(int, int, int)"),
	bind: call("int bind(int, void *, unsigned int)"),
	listen: call("int listen(int, int)"),
	accept4: call("int accept4(int, void *, void *, int)"),
	connect: call("int connect(int, void *, unsigned int)"),
	getsockname: call("int getsockname(int, void *, void *)"),
	getsockopt: call("int getsockopt(int, int, int, void *, void *)"),
	setsockopt: call("int setsockopt(int, int, int, void *, unsigned int)"),
	shutdown: call("int shutdown(int, int)"),
	close: call("int close(int)"),
	closeRange: call("int close_range(unsigned int, unsigned int, int)"),
	recv: call("int64_t recv(int, void *, size_t, int)"),
	send: call("int64_t send(int, void *, size_t, int)"),
	splice: call("int64_t splice(int, void *, int, void *, size_t, unsigned int)"),
	pipe2: call("int pipe2(void *, int)"),
	fcntl: call("int fcntl(int, int, int)"),
	recvmsg: call("int64_t recvmsg(int, void *, int)"),
	recvmmsg: call("int recvmmsg(int, void *, unsigned int, int, void *)"),
	sendmmsg: call("int sendmmsg(int, void *, unsigned int, int)"),
	epollCreate1: call("int epoll_create1(int)"),
	epollCtl: call("int epoll_ctl(int, int, int, void *)"),
	epollWait: call("int epoll_wait(int, void *, int, int)"),
	eventfd: call("int eventfd(unsigned int, int)"),
	read: call("int64_t read(int, void *, size_t)"),
	write: call("int64_t write(int, void *, size_t)"),
	mmap: call("int64_t mmap(void *, size_t, int, int, int, int64_t)"),
	munmap: call("int munmap(void *, size_t)"),
	posixSpawn: call(
		"int posix_spawn(void *, const char *, void *, void *, const char **, const char **)",
	),
	spawnActionsInit: call("int posix_spawn_file_actions_init(void *)"),
	spawnActionsAddDup2: call("int posix_spawn_file_actions_adddup2(void *, int, int)"),
	spawnActionsDestroy: call("int posix_spawn_file_actions_destroy(void *)"),
	spawnAttributesInit: call("int posix_spawnattr_init(void *)"),
	spawnAttributesSetFlags: call("int posix_spawnattr_setflags(void *, short)"),
	spawnAttributesSetMask: call("int posix_spawnattr_setsigmask(void *, void *)"),
	spawnAttributesSetDefault: call("int posix_spawnattr_setsigdefault(void *, void *)"),
	sigemptyset: call("int sigemptyset(void *)"),
	sigfillset: call("int sigfillset(void *)"),
	waitpid: call("int waitpid(int, void *, int)"),
	// C libraries have no functions for these.
	schedGetattr: call("int64_t syscall(int64_t, int, void *, unsigned int, unsigned int)"),
	schedSetattr: call("int64_t syscall(int64_t, int, void *, unsigned int)"),
	ioUringSetup: call("int64_t syscall(int64_t, unsigned int, void *)"),
	ioUringEnter: call(
		"int64_t syscall(int64_t, int, unsigned int, unsigned int, unsigned int, void *, size_t)",
	),
} as const;

const SYS_SCHED_SETATTR = arch === "x64" ? 314 : 274;
const SYS_SCHED_GETATTR = arch === "x64" ? 315 : 275;
/** All architectures have the same numbers for calls as new as these. */
const SYS_IO_URING_SETUP = 425;
const SYS_IO_URING_ENTER = 426;

/** asm-generic values: the same on x86-64 and arm64. */
export const AF_INET = 2;
export const AF_INET6 = 10;
export const SOCK_STREAM = 1;
export const SOCK_DGRAM = 2;
const SOCK_NONBLOCK = 0o4000;
const SOCK_CLOEXEC = 0o2000000;
export const SOL_SOCKET = 1;
export const SO_REUSEADDR = 2;
export const SO_ERROR = 4;
export const SO_SNDBUF = 7;
export const SO_RCVBUF = 8;
export const SO_KEEPALIVE = 9;
const SO_LINGER = 13;
export const SO_REUSEPORT = 15;
export const IPPROTO_IP = 0;
export const IP_PKTINFO = 8;
export const IPPROTO_TCP = 6;
export const TCP_NODELAY = 1;
export const TCP_KEEPIDLE = 4;
export const TCP_KEEPINTVL = 5;
export const TCP_KEEPCNT = 6;
export const TCP_QUICKACK = 12;
export const IPPROTO_IPV6 = 41;
export const IPV6_V6ONLY = 26;
export const IPV6_RECVPKTINFO = 49;
export const SHUT_WR = 1;
export const SHUT_RDWR = 2;
export const MSG_DONTWAIT = 0x40;
export const MSG_NOSIGNAL = 0x4000;
export const MSG_MORE = 0x8000;
const SPLICE_F_MOVE = 1;
const SPLICE_F_NONBLOCK = 2;
const O_NONBLOCK = 0o4000;
const O_CLOEXEC = 0o2000000;
const F_SETPIPE_SZ = 1031;
export const EPOLLIN = 0x001;
export const EPOLLPRI = 0x002;
export const EPOLLOUT = 0x004;
export const EPOLLERR = 0x008;
export const EPOLLHUP = 0x010;
export const EPOLLRDHUP = 0x2000;
export const EPOLLET = 1 << 31;
const EFD_NONBLOCK = 0o4000;
const EFD_CLOEXEC = 0o2000000;
const PROT_READ_WRITE = 3;
const MAP_SHARED = 1;
const MAP_POPULATE = 0x8000;
const IORING_ENTER_GETEVENTS = 1;
const POSIX_SPAWN_SETSIGDEF = 0x04;
const POSIX_SPAWN_SETSIGMASK = 0x08;
const POSIX_SPAWN_SETSID = 0x80;
const WNOHANG = 1;
export const EINTR = 4;
export const EAGAIN = 11;
export const EINPROGRESS = 115;

const EPOLL_CLOEXEC = 0o2000000;
export const EPOLL_CTL_ADD = 1;
const EPOLL_CTL_DEL = 2;

/** `struct epoll_event` is packed on x86-64 and nowhere else. In 32-bit words. */
const EPOLL_EVENT_WORDS = arch === "x64" ? 3 : 4;
const EPOLL_DATA_WORD = arch === "x64" ? 1 : 2;
/** The data has 64 bits. */
const EPOLL_TAG_WORD: number = EPOLL_DATA_WORD + 1;

/** A sockaddr_in6, the bigger of the two, and a sockaddr_in. */
export const SOCKET_ADDRESS_BYTES = 28;
export const IPV4_SOCKET_ADDRESS_BYTES = 16;

const int = new Int32Array(1);
const intLength = new Uint32Array([4]);
const linger = new Int32Array(2);
const addressLength = new Uint32Array(1);
const epollEvent = new Int32Array(EPOLL_EVENT_WORDS);
const pipeEnds = new Int32Array(2);
const eight = Buffer.alloc(8);
/** posix_spawn_file_actions_t has 80 bytes in glibc and musl, posix_spawnattr_t 336, sigset_t 128. */
const spawnActions = Buffer.alloc(128);
const spawnAttributes = Buffer.alloc(512);
const noSignals = Buffer.alloc(128);
const allSignals = Buffer.alloc(128);

/** What a call reads from or writes to. */
export type Memory = Uint8Array | Uint32Array | Int32Array;

function answer(returned: number): number {
	return returned < 0 ? -errno() : returned;
}

/** A new socket, non-blocking and not for child processes. */
export function socket(family: number, type: number): number {
	return answer(raw.socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

/** @param length of the address in `address`. */
export function bind(fd: number, address: Uint8Array, length: number): number {
	return answer(raw.bind(fd, address, length));
}

export function listen(fd: number, backlog: number): number {
	return answer(raw.listen(fd, backlog));
}

/** @param address gets the peer's. @returns a socket that is non-blocking and not for child processes. */
export function accept4(fd: number, address: Uint8Array): number {
	addressLength[0] = address.length;
	return answer(raw.accept4(fd, address, addressLength, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

export function connect(fd: number, address: Uint8Array, length: number): number {
	return answer(raw.connect(fd, address, length));
}

/** @param address gets ours. */
export function getsockname(fd: number, address: Uint8Array): number {
	addressLength[0] = address.length;
	return answer(raw.getsockname(fd, address, addressLength));
}

/** An option that is an int. @returns its value, which is never negative for the options that we ask for. */
export function getIntOption(fd: number, level: number, option: number): number {
	const result = answer(raw.getsockopt(fd, level, option, int, intLength));
	return result < 0 ? result : (int[0] ?? 0);
}

export function setIntOption(fd: number, level: number, option: number, value: number): number {
	int[0] = value;
	return answer(raw.setsockopt(fd, level, option, int, 4));
}

/** Makes the close of this socket a reset, whatever is unsent. */
export function setResetOnClose(fd: number): number {
	linger[0] = 1;
	linger[1] = 0;
	return answer(raw.setsockopt(fd, SOL_SOCKET, SO_LINGER, linger, 8));
}

export function shutdown(fd: number, how: number): number {
	return answer(raw.shutdown(fd, how));
}

/** Never to be tried again: the descriptor is free whatever this returns. */
export function close(fd: number): number {
	return answer(raw.close(fd));
}

/** Closes all descriptors from the first to the last. Linux 5.9 and later. */
export function closeRange(first: number, last: number): number {
	return answer(raw.closeRange(first, last, 0));
}

/** @returns 0 at the end of what the peer sends. */
export function recv(fd: number, into: Memory, length: number): number {
	return answer(raw.recv(fd, into, length, 0));
}

export function send(fd: number, from: Uint8Array, length: number): number {
	return answer(raw.send(fd, from, length, MSG_NOSIGNAL));
}

/** @param flags MSG_NOSIGNAL and others. With MSG_MORE, bytes wait for the FIN that a shutdown or a close sends next. */
export function sendWith(fd: number, from: Memory, length: number, flags: number): number {
	return answer(raw.send(fd, from, length, flags));
}

/** Moves up to `length` bytes without a copy; one of the two is a pipe. Never blocks on it. */
export function splice(fromFd: number, toFd: number, length: number): number {
	return answer(raw.splice(fromFd, null, toFd, null, length, SPLICE_F_MOVE | SPLICE_F_NONBLOCK));
}

/** @param ends gets the reading and the writing end. */
export function pipe(ends: Int32Array): number {
	const result = answer(raw.pipe2(pipeEnds, O_NONBLOCK | O_CLOEXEC));
	ends.set(pipeEnds);
	return result;
}

/** The same for a program at one end, which does not expect ends that never block. */
export function blockingPipe(ends: Int32Array): number {
	const result = answer(raw.pipe2(pipeEnds, O_CLOEXEC));
	ends.set(pipeEnds);
	return result;
}

/** @returns how many bytes it holds now. */
export function setPipeSize(fd: number, bytes: number): number {
	return answer(raw.fcntl(fd, F_SETPIPE_SZ, bytes));
}

export function epollCreate(): number {
	return answer(raw.epollCreate1(EPOLL_CLOEXEC));
}

/** @param tag comes back with each event of it; an int. */
export function epollAdd(epollFd: number, fd: number, events: number, tag: number): number {
	epollEvent[0] = events;
	epollEvent[EPOLL_DATA_WORD] = fd;
	epollEvent[EPOLL_TAG_WORD] = tag;
	return answer(raw.epollCtl(epollFd, EPOLL_CTL_ADD, fd, epollEvent));
}

export function epollDelete(epollFd: number, fd: number): number {
	return answer(raw.epollCtl(epollFd, EPOLL_CTL_DEL, fd, null));
}

/** Events of epoll: what epoll_wait writes to, and what epoll_ctl is told. */
export class EpollEvents {
	readonly capacity: number;
	readonly words: Int32Array;

	constructor(capacity: number) {
		this.capacity = capacity;
		this.words = new Int32Array(capacity * EPOLL_EVENT_WORDS);
	}

	/** @returns at which byte of {@link words} it is. */
	set(index: number, fd: number, events: number, tag: number): number {
		const at = index * EPOLL_EVENT_WORDS;
		this.words[at] = events;
		this.words[at + EPOLL_DATA_WORD] = fd;
		this.words[at + EPOLL_TAG_WORD] = tag;
		return at * Int32Array.BYTES_PER_ELEMENT;
	}

	fd(index: number): number {
		return this.words[index * EPOLL_EVENT_WORDS + EPOLL_DATA_WORD] ?? -1;
	}

	tag(index: number): number {
		return this.words[index * EPOLL_EVENT_WORDS + EPOLL_TAG_WORD] ?? 0;
	}

	events(index: number): number {
		return this.words[index * EPOLL_EVENT_WORDS] ?? 0;
	}
}

/** Blocks this thread. @param timeoutMs -1: until there is an event. @returns how many events there are. */
export function epollWait(epollFd: number, events: EpollEvents, timeoutMs: number): number {
	return answer(raw.epollWait(epollFd, events.words, events.capacity, timeoutMs));
}

export function eventfd(): number {
	return answer(raw.eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
}

/** Makes the eventfd readable, from any thread. */
export function signalEventfd(fd: number): number {
	eight.writeUInt32LE(1, 0);
	return answer(raw.write(fd, eight, 8));
}

/** Makes it unreadable until it is signalled again. */
export function clearEventfd(fd: number): number {
	return answer(raw.read(fd, eight, 8));
}

/** Receives a datagram. @param header a `struct msghdr`, or what begins with one. @returns its bytes. */
export function recvmsg(fd: number, header: Memory): number {
	return answer(raw.recvmsg(fd, header, 0));
}

/** Receives datagrams into what the headers say. @param headers `count` of `struct mmsghdr`: datagram-batch.ts lays them out. */
export function recvmmsg(fd: number, headers: Uint32Array, count: number): number {
	return answer(raw.recvmmsg(fd, headers, count, 0, null));
}

/** Sends what the headers say, in order. @returns how many were sent: the next one is why it were not more. */
export function sendmmsg(fd: number, headers: Uint32Array, count: number): number {
	return answer(raw.sendmmsg(fd, headers, count, MSG_NOSIGNAL));
}

/** Where the kernel finds the buffer's memory; good as long as the buffer is alive. */
export function addressOf(memory: Memory): number {
	// Of 57 bits at most, and in practice 47: a double holds 53.
	return Number(koffi.address(memory));
}

/** @param parameters a `struct io_uring_params`, in which the kernel says what it has made. @returns a descriptor. */
export function ioUringSetup(entries: number, parameters: Uint32Array): number {
	return answer(raw.ioUringSetup(SYS_IO_URING_SETUP, entries, parameters));
}

/** Hands the kernel what was queued and waits for so many results. @returns how many it has taken. */
export function ioUringEnter(fd: number, toSubmit: number, minResults: number): number {
	return answer(
		raw.ioUringEnter(SYS_IO_URING_ENTER, fd, toSubmit, minResults, IORING_ENTER_GETEVENTS, null, 0),
	);
}

/** How the scheduler treats the calling thread. @param attributes gets a `struct sched_attr`. */
export function schedGetattr(attributes: Uint32Array): number {
	return answer(raw.schedGetattr(SYS_SCHED_GETATTR, 0, attributes, attributes.byteLength, 0));
}

export function schedSetattr(attributes: Uint32Array): number {
	return answer(raw.schedSetattr(SYS_SCHED_SETATTR, 0, attributes, 0));
}

/** Memory that is shared with the kernel. Not to be touched after {@link unmapShared}. */
export interface SharedMapping {
	readonly memory: ArrayBuffer;
	readonly address: number;
}

/** @returns memory of what the descriptor stands for at `offset`, or -errno. */
export function mapShared(fd: number, bytes: number, offset: number): SharedMapping | number {
	const flags = MAP_SHARED | MAP_POPULATE;
	const address = answer(raw.mmap(null, bytes, PROT_READ_WRITE, flags, fd, offset));
	return address < 0 ? address : { memory: koffi.view(BigInt(address), bytes), address };
}

export function unmapShared({ memory, address }: SharedMapping): void {
	raw.munmap(BigInt(address), memory.byteLength);
}

/**
 * Starts a program in a session of its own, with every signal as it is by default.
 *
 * @param stdio descriptors that it gets as 0, 1 and 2; it gets no others that are not for child processes.
 * @returns its number, when it runs: a file that cannot be run is an error.
 */
export function posixSpawn(
	path: string,
	argv: readonly string[],
	environment: readonly string[],
	stdio: readonly [number, number, number],
): number {
	// These return an error's number instead of setting errno.
	raw.sigemptyset(noSignals);
	raw.sigfillset(allSignals);
	const flags = POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
	raw.spawnAttributesInit(spawnAttributes);
	raw.spawnActionsInit(spawnActions);
	try {
		const error =
			raw.spawnAttributesSetFlags(spawnAttributes, flags) ||
			raw.spawnAttributesSetMask(spawnAttributes, noSignals) ||
			raw.spawnAttributesSetDefault(spawnAttributes, allSignals) ||
			raw.spawnActionsAddDup2(spawnActions, stdio[0], 0) ||
			raw.spawnActionsAddDup2(spawnActions, stdio[1], 1) ||
			raw.spawnActionsAddDup2(spawnActions, stdio[2], 2) ||
			raw.posixSpawn(
				int,
				path,
				spawnActions,
				spawnAttributes,
				[...argv, null],
				[...environment, null],
			);
		return error === 0 ? (int[0] ?? 0) : -error;
	} finally {
		raw.spawnActionsDestroy(spawnActions);
	}
}

/** Does not wait. @param status gets how it ended. @returns 0 while the program runs, then its number, once. */
export function waitpidNow(pid: number, status: Int32Array): number {
	return answer(raw.waitpid(pid, status, WNOHANG));
}

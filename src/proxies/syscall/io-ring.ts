import {
	close,
	EAGAIN,
	EINTR,
	ioUringEnter,
	ioUringSetup,
	mapShared,
	type SharedMapping,
	unmapShared,
} from "../../system/libc.ts";
import { must, systemError } from "../../system/system-error.ts";

/*
 * Layouts of <linux/io_uring.h>, in 32-bit words, the same on x86-64 and arm64.
 *
 * struct io_uring_params: sq_entries, cq_entries, flags, sq_thread_cpu, sq_thread_idle, features, wq_fd, 3 reserved;
 * struct io_sqring_offsets: head, tail, ring_mask, ring_entries, flags, dropped, array, …; and
 * struct io_cqring_offsets: head, tail, ring_mask, ring_entries, overflow, cqes, ….
 */
const PARAMETER_WORDS = 30;
const FLAGS_AT = 2;
const FEATURES_AT = 5;
const SQ_TAIL_AT = 11;
const SQ_MASK_AT = 12;
const SQ_ARRAY_AT = 16;
const CQ_HEAD_AT = 20;
const CQ_TAIL_AT = 21;
const CQ_MASK_AT = 22;
const CQ_ENTRIES_AT = 1;
const CQES_AT = 25;

/** Both rings are in one mapping (Linux 5.4). */
const IORING_FEAT_SINGLE_MMAP = 1;
/** One call that cannot be begun holds up none of those behind it (Linux 5.18). */
const IORING_SETUP_SUBMIT_ALL = 1 << 7;
const IORING_OFF_SQ_RING = 0;
const IORING_OFF_SQES = 0x1000_0000;

/**
 * struct io_uring_sqe: opcode (8 bits), flags (8), priority (16); fd; an offset or more (2); address (2); length; flags of
 * the call; user data (2); the rest is 0 for the calls that we make.
 */
const SQE_WORDS = 16;
const FD_AT = 1;
const MORE_AT = 2;
const ADDRESS_AT = 4;
const LENGTH_AT = 6;
const CALL_FLAGS_AT = 7;
const USER_DATA_AT = 8;

/** struct io_uring_cqe: user data (2), result, flags. */
const CQE_WORDS = 4;
const RESULT_AT = 2;

const WORD_BYTES = 4;

/** The kernel may refuse to begin so often in one run. A guess: each time it has had time to find memory. */
const MAX_REFUSALS = 1_000;
const TWO_TO_32 = 2 ** 32;

/** All of them are older than IORING_SETUP_SUBMIT_ALL. */
export const IORING_OP = {
	recvmsg: 10,
	close: 19,
	send: 26,
	recv: 27,
	epollCtl: 29,
} as const;

/**
 * Many system calls by one entry into the kernel, with io_uring.
 *
 * Nothing is left under way: {@link run} returns when all have their results. So this is for calls that do not wait:
 * on sockets that are non-blocking, with MSG_DONTWAIT.
 */
export class IoRing {
	readonly fd: number;
	/** Calls that one {@link run} can make. */
	readonly capacity: number;
	/** Of the last {@link run}, in the order of {@link add}: what each call returned, or -errno. */
	readonly results: Int32Array;
	readonly #rings: SharedMapping;
	readonly #entries: SharedMapping;
	readonly #ringWords: Uint32Array;
	readonly #entryWords: Int32Array;
	readonly #resultWords: Int32Array;
	readonly #tailAt: number;
	readonly #mask: number;
	readonly #resultHeadAt: number;
	readonly #resultTailAt: number;
	readonly #resultMask: number;
	#tail: number;
	#resultHead: number;
	#added = 0;

	/**
	 * @param capacity a power of two.
	 * @throws the system's error: where there is no io_uring, or it is not allowed.
	 */
	constructor(capacity: number) {
		const parameters = new Uint32Array(PARAMETER_WORDS);
		parameters[FLAGS_AT] = IORING_SETUP_SUBMIT_ALL;
		const fd = must("io_uring_setup", ioUringSetup(capacity, parameters));
		this.fd = fd;
		this.capacity = capacity;
		this.results = new Int32Array(capacity);
		let rings: SharedMapping | undefined;
		try {
			if (((parameters[FEATURES_AT] ?? 0) & IORING_FEAT_SINGLE_MMAP) === 0) {
				throw new Error("io_uring of this kernel has its rings in two mappings");
			}
			const resultsEnd =
				wordOf(parameters, CQES_AT) + wordOf(parameters, CQ_ENTRIES_AT) * CQE_WORDS;
			const arrayEnd = wordOf(parameters, SQ_ARRAY_AT) + capacity;
			const bytes = Math.max(resultsEnd, arrayEnd) * WORD_BYTES;
			rings = mapped(mapShared(fd, bytes, IORING_OFF_SQ_RING));
			this.#rings = rings;
			this.#entries = mapped(mapShared(fd, capacity * SQE_WORDS * WORD_BYTES, IORING_OFF_SQES));
		} catch (error) {
			if (rings !== undefined) unmapShared(rings);
			close(fd);
			throw error;
		}
		const words = new Uint32Array(this.#rings.memory);
		this.#ringWords = words;
		this.#entryWords = new Int32Array(this.#entries.memory);
		this.#resultWords = new Int32Array(
			this.#rings.memory,
			wordOf(parameters, CQES_AT) * WORD_BYTES,
		);
		this.#tailAt = wordOf(parameters, SQ_TAIL_AT);
		this.#mask = words[wordOf(parameters, SQ_MASK_AT)] ?? 0;
		this.#resultHeadAt = wordOf(parameters, CQ_HEAD_AT);
		this.#resultTailAt = wordOf(parameters, CQ_TAIL_AT);
		this.#resultMask = words[wordOf(parameters, CQ_MASK_AT)] ?? 0;
		this.#tail = words[this.#tailAt] ?? 0;
		this.#resultHead = words[this.#resultHeadAt] ?? 0;
		// Which entry each place of the ring stands for: always the same.
		const array = wordOf(parameters, SQ_ARRAY_AT);
		for (let entry = 0; entry < capacity; entry += 1) words[array + entry] = entry;
	}

	/**
	 * Queues a call.
	 *
	 * @param address of its memory.
	 * @param more what some calls need further: of epollCtl the descriptor.
	 * @throws {RangeError} when there is no room.
	 */
	add(
		operation: number,
		fd: number,
		address: number,
		length: number,
		flags: number,
		more: number,
	): void {
		if (this.#added === this.capacity) throw new RangeError("Cannot queue more calls");
		const words = this.#entryWords;
		const at = (this.#tail & this.#mask) * SQE_WORDS;
		// All words that any of our calls uses: the others are 0 for ever.
		words[at] = operation;
		words[at + FD_AT] = fd;
		words[at + MORE_AT] = more;
		words[at + ADDRESS_AT] = address | 0;
		words[at + ADDRESS_AT + 1] = (address / TWO_TO_32) | 0;
		words[at + LENGTH_AT] = length;
		words[at + CALL_FLAGS_AT] = flags;
		words[at + USER_DATA_AT] = this.#added;
		this.#tail = (this.#tail + 1) >>> 0;
		this.#added += 1;
	}

	/** Makes all calls that are queued. @returns how many {@link results} there are. */
	run(): number {
		const count = this.#added;
		this.#added = 0;
		Atomics.store(this.#ringWords, this.#tailAt, this.#tail);
		let submitted = 0;
		let refusals = 0;
		for (let done = 0; done < count; ) {
			const taken = ioUringEnter(this.fd, count - submitted, count - done);
			// Interrupted, or there is no memory for the moment.
			if (taken < 0) refusals += 1;
			const isPassing = taken === -EINTR || taken === -EAGAIN;
			if (taken < 0 && (!isPassing || refusals > MAX_REFUSALS)) {
				throw systemError("io_uring_enter", taken);
			}
			submitted += Math.max(0, taken);
			done += this.#takeResults();
		}
		return count;
	}

	close(): void {
		unmapShared(this.#rings);
		unmapShared(this.#entries);
		close(this.fd);
	}

	#takeResults(): number {
		const tail = Atomics.load(this.#ringWords, this.#resultTailAt);
		let count = 0;
		for (; this.#resultHead !== tail; this.#resultHead = (this.#resultHead + 1) >>> 0) {
			const at = (this.#resultHead & this.#resultMask) * CQE_WORDS;
			this.results[this.#resultWords[at] ?? 0] = this.#resultWords[at + RESULT_AT] ?? 0;
			count += 1;
		}
		Atomics.store(this.#ringWords, this.#resultHeadAt, this.#resultHead);
		return count;
	}
}

/** Offsets are told in bytes, but for numbers of entries. */
function wordOf(parameters: Uint32Array, at: number): number {
	const value = parameters[at] ?? 0;
	return at === CQ_ENTRIES_AT ? value : value / WORD_BYTES;
}

function mapped(mapping: SharedMapping | number): SharedMapping {
	if (typeof mapping === "number") throw systemError("mmap", mapping);
	return mapping;
}

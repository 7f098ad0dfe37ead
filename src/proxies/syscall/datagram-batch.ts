import {
	addressOf,
	IPV4_SOCKET_ADDRESS_BYTES,
	recvmmsg,
	SOCKET_ADDRESS_BYTES,
	sendmmsg,
} from "../../system/libc.ts";
import { CONTROL_AT, ENDS_WORDS, isIpv6, settleEnds } from "./datagram-ends.ts";

/*
 * What recvmmsg and sendmmsg are given, in 32-bit words, the same on x86-64 and arm64. Pointers and lengths are two
 * words each; the second one of a length is 0.
 *
 * struct mmsghdr: name, its length (padded), vector, how many, control data, its length, flags (padded), and how
 * many bytes were received or sent (padded). struct iovec: where, how many bytes.
 */
const HEADER_WORDS = 16;
const NAME_AT = 0;
const NAME_LENGTH_AT = 2;
const VECTOR_AT = 4;
const VECTOR_COUNT_AT = 6;
const CONTROL_POINTER_AT = 8;
const CONTROL_LENGTH_AT = 10;
const RECEIVED_AT = 14;
const VECTOR_WORDS = 4;
const DATA_AT = 0;
const DATA_LENGTH_AT = 2;

const WORD_BYTES = 4;
const CONTROL_BYTES = (ENDS_WORDS - CONTROL_AT) * WORD_BYTES;

/**
 * Datagrams that one system call receives or sends, each in a slot of its own.
 *
 * All memory is laid out once; for a datagram nothing is made but the view that it is handed out as.
 */
export class DatagramBatch {
	readonly slots: number;
	readonly #slotBytes: number;
	readonly #headers: Uint32Array;
	readonly #vectors: Uint32Array;
	/** One for each slot, all in one piece of memory. */
	readonly #ends: readonly Int32Array[];
	readonly #data: Buffer;
	readonly #dataAddress: number;
	readonly #headersAddress: number;
	readonly #headerViews: readonly Uint32Array[];
	/** So many slots have lengths other than those to receive with. */
	#used: number;

	/** @param slotBytes the most that one datagram may have; what is longer is cut when it is received. */
	constructor(slots: number, slotBytes: number) {
		this.slots = slots;
		this.#used = slots;
		this.#slotBytes = slotBytes;
		this.#headers = new Uint32Array(slots * HEADER_WORDS);
		this.#vectors = new Uint32Array(slots * VECTOR_WORDS);
		this.#data = Buffer.allocUnsafeSlow(slots * slotBytes);
		const ends = new Int32Array(slots * ENDS_WORDS);
		this.#ends = Array.from({ length: slots }, (_, slot) =>
			ends.subarray(slot * ENDS_WORDS, (slot + 1) * ENDS_WORDS),
		);
		this.#headerViews = Array.from({ length: slots }, (_, slot) =>
			this.#headers.subarray(slot * HEADER_WORDS, (slot + 1) * HEADER_WORDS),
		);
		const vectorsAt = addressOf(this.#vectors);
		const endsAt = addressOf(ends);
		const dataAt = addressOf(this.#data);
		this.#dataAddress = dataAt;
		this.#headersAddress = addressOf(this.#headers);
		for (let slot = 0; slot < slots; slot += 1) {
			const header = slot * HEADER_WORDS;
			const vector = slot * VECTOR_WORDS;
			const name = endsAt + slot * ENDS_WORDS * WORD_BYTES;
			setPointer(this.#headers, header + NAME_AT, name);
			setPointer(this.#headers, header + CONTROL_POINTER_AT, name + CONTROL_AT * WORD_BYTES);
			setPointer(this.#headers, header + VECTOR_AT, vectorsAt + vector * WORD_BYTES);
			this.#headers[header + VECTOR_COUNT_AT] = 1;
			setPointer(this.#vectors, vector + DATA_AT, dataAt + slot * slotBytes);
		}
	}

	/** Receives what is there, without waiting. @returns how many slots hold a datagram, or -errno. */
	receive(fd: number): number {
		for (let slot = 0; slot < this.#used; slot += 1) this.prepare(slot);
		const count = recvmmsg(fd, this.#headers, this.slots);
		this.#used = Math.max(0, count);
		for (let slot = 0; slot < count; slot += 1) this.#settle(slot);
		return count;
	}

	/** Makes a slot ready to be received to by itself, see {@link headerOf} and {@link noteReceived}. */
	prepare(slot: number): void {
		const header = slot * HEADER_WORDS;
		this.#headers[header + NAME_LENGTH_AT] = SOCKET_ADDRESS_BYTES;
		this.#headers[header + CONTROL_LENGTH_AT] = CONTROL_BYTES;
		this.#vectors[slot * VECTOR_WORDS + DATA_LENGTH_AT] = this.#slotBytes;
	}

	/** A `struct mmsghdr`. */
	headerOf(slot: number): Uint32Array {
		return this.#inSlot(this.#headerViews, slot);
	}

	headerAddressOf(slot: number): number {
		return this.#headersAddress + slot * HEADER_WORDS * WORD_BYTES;
	}

	/** @param bytes that a slot has received by itself. */
	noteReceived(slot: number, bytes: number): void {
		this.#headers[slot * HEADER_WORDS + RECEIVED_AT] = bytes;
		this.#settle(slot);
	}

	/** Where a datagram of this batch is in memory; undefined for one that is elsewhere. */
	addressOf(datagram: Buffer): number | undefined {
		if (datagram.buffer !== this.#data.buffer) return undefined;
		return this.#dataAddress + datagram.byteOffset;
	}

	/** What was received in a slot: good until the next {@link receive}. */
	datagram(slot: number): Buffer {
		const start = slot * this.#slotBytes;
		const length = this.#headers[slot * HEADER_WORDS + RECEIVED_AT] ?? 0;
		return this.#data.subarray(start, start + length);
	}

	/** Between whom it was received; good as long. */
	ends(slot: number): Int32Array {
		return this.#inSlot(this.#ends, slot);
	}

	/** Puts a datagram into a slot, to be sent. @param ends settled, or of {@link endsTo}. */
	fill(slot: number, datagram: Uint8Array, ends: Int32Array): void {
		const header = slot * HEADER_WORDS;
		this.#data.set(datagram, slot * this.#slotBytes);
		this.ends(slot).set(ends);
		this.#headers[header + NAME_LENGTH_AT] = isIpv6(ends)
			? SOCKET_ADDRESS_BYTES
			: IPV4_SOCKET_ADDRESS_BYTES;
		// The length that the control data begins with; 0 where there is none.
		this.#headers[header + CONTROL_LENGTH_AT] = ends[CONTROL_AT] ?? 0;
		this.#vectors[slot * VECTOR_WORDS + DATA_LENGTH_AT] = datagram.length;
		this.#used = Math.max(this.#used, slot + 1);
	}

	#inSlot<Each>(each: readonly Each[], slot: number): Each {
		const found = each[slot];
		if (found === undefined) throw new RangeError(`Cannot use slot ${slot} of ${this.slots}`);
		return found;
	}

	#settle(slot: number): void {
		const hasControl = this.#headers[slot * HEADER_WORDS + CONTROL_LENGTH_AT] !== 0;
		settleEnds(this.ends(slot), hasControl);
	}

	/** Sends slots in order. @returns how many were sent: the next one is why it were not more. */
	send(fd: number, first: number, count: number): number {
		const headers = first === 0 ? this.#headers : this.#headers.subarray(first * HEADER_WORDS);
		return sendmmsg(fd, headers, count);
	}
}

function setPointer(words: Uint32Array, at: number, address: number): void {
	words[at] = address;
	words[at + 1] = address / 2 ** 32;
}

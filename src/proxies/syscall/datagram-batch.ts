import { addressOf, recvmmsg, SOCKET_ADDRESS_BYTES, sendmmsg } from "./libc.ts";

/**
 * `struct msghdr`, 56 bytes: name, its length (padded), the vector and its count, control and its length,
 * flags (padded). `struct mmsghdr`: that, the bytes that were received or sent, padding.
 */
const MMSGHDR_BYTES = 64;
const NAME_AT = 0;
const NAME_LENGTH_AT = 8;
const IOV_AT = 16;
const IOV_COUNT_AT = 24;
const RECEIVED_AT = 56;
/** `struct iovec`: base, length. */
const IOVEC_BYTES = 16;
const IOVEC_LENGTH_AT = 8;

/** Datagrams that one system call receives or sends, each in a slot of its own. */
export class DatagramBatch {
	readonly slots: number;
	readonly #slotBytes: number;
	readonly #headers: Buffer;
	readonly #vectors: Buffer;
	readonly #names: Buffer;
	readonly #data: Buffer;

	/** @param slotBytes the most that one datagram may have; what is longer is cut when it is received. */
	constructor(slots: number, slotBytes: number) {
		this.slots = slots;
		this.#slotBytes = slotBytes;
		this.#headers = Buffer.alloc(slots * MMSGHDR_BYTES);
		this.#vectors = Buffer.alloc(slots * IOVEC_BYTES);
		this.#names = Buffer.alloc(slots * SOCKET_ADDRESS_BYTES);
		this.#data = Buffer.allocUnsafeSlow(slots * slotBytes);
		const [vectors, names, data] = [this.#vectors, this.#names, this.#data].map(addressOf);
		for (let slot = 0; slot < slots; slot += 1) {
			const header = slot * MMSGHDR_BYTES;
			const vector = slot * IOVEC_BYTES;
			const at = BigInt(slot);
			this.#headers.writeBigUInt64LE(
				(names ?? 0n) + at * BigInt(SOCKET_ADDRESS_BYTES),
				header + NAME_AT,
			);
			this.#headers.writeBigUInt64LE((vectors ?? 0n) + at * BigInt(IOVEC_BYTES), header + IOV_AT);
			this.#headers.writeUInt32LE(1, header + IOV_COUNT_AT);
			this.#vectors.writeBigUInt64LE((data ?? 0n) + at * BigInt(slotBytes), vector);
			this.#vectors.writeUInt32LE(slotBytes, vector + IOVEC_LENGTH_AT);
		}
	}

	/** Receives what is there, without waiting. @returns how many slots hold a datagram. */
	receive(fd: number): number {
		for (let slot = 0; slot < this.slots; slot += 1) {
			this.#headers.writeUInt32LE(SOCKET_ADDRESS_BYTES, slot * MMSGHDR_BYTES + NAME_LENGTH_AT);
		}
		return recvmmsg(fd, this.#headers, this.slots);
	}

	/** What was received in a slot: good until the next {@link receive}. */
	datagram(slot: number): Buffer {
		const start = slot * this.#slotBytes;
		const length = this.#headers.readUInt32LE(slot * MMSGHDR_BYTES + RECEIVED_AT);
		return this.#data.subarray(start, start + length);
	}

	/** The sender of what was received in a slot, or whom a slot is to be sent to. */
	name(slot: number): Buffer {
		const start = slot * SOCKET_ADDRESS_BYTES;
		return this.#names.subarray(start, start + SOCKET_ADDRESS_BYTES);
	}

	/** Puts a datagram into a slot, to be sent. @param nameLength of the address. */
	fill(slot: number, datagram: Uint8Array, name: Uint8Array, nameLength: number): void {
		this.#data.set(datagram, slot * this.#slotBytes);
		this.#names.set(name, slot * SOCKET_ADDRESS_BYTES);
		this.#headers.writeUInt32LE(nameLength, slot * MMSGHDR_BYTES + NAME_LENGTH_AT);
		this.#vectors.writeUInt32LE(datagram.length, slot * IOVEC_BYTES + IOVEC_LENGTH_AT);
	}

	/** Sends slots in order. @returns how many were sent: the next one is why it were not more. */
	send(fd: number, first: number, count: number): number {
		const headers = this.#headers.subarray(first * MMSGHDR_BYTES);
		return sendmmsg(fd, headers, count);
	}
}

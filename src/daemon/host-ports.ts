import { closeSync, openSync, readFileSync, readSync } from "node:fs";
import { type IpAddress, ipFamilyOf, parseIpAddress } from "../services/address.ts";
import type { HostPort } from "../services/node-view.ts";
import type { Protocol } from "../services/service-port.ts";

/** A socket of this network namespace that waits for clients. */
export interface WaitingSocket {
	readonly protocol: Protocol;
	/** "0.0.0.0" and "::" are every address; "::" those of IPv4 too, as far as one can tell. */
	readonly address: IpAddress;
	readonly port: number;
}

const TABLES: readonly (readonly [protocol: Protocol, path: string])[] = [
	["tcp", "/proc/net/tcp"],
	["tcp", "/proc/net/tcp6"],
	["udp", "/proc/net/udp"],
	["udp", "/proc/net/udp6"],
];

/** Of a socket that listens (TCP_LISTEN), and of one that is connected to nobody (TCP_CLOSE). */
const WAITING_STATE: Readonly<Record<Protocol, string>> = { tcp: "0A", udp: "07" };

const CHUNK_BYTES = 64 * 1024;

/** Every socket of this network namespace that waits for clients. A table that is not there has none. */
export function readWaitingSockets(): readonly WaitingSocket[] {
	return TABLES.flatMap(([protocol, path]) => {
		try {
			const text = protocol === "tcp" ? readListening(path) : readFileSync(path, "latin1");
			return parseSocketTable(text, protocol);
		} catch {
			return [];
		}
	});
}

/**
 * The sockets of a table of /proc/net that wait for clients.
 *
 * @param text a head line, then "sl local:port remote:port state ...", numbers in hexadecimal.
 */
export function parseSocketTable(text: string, protocol: Protocol): readonly WaitingSocket[] {
	return text.split("\n").flatMap((line) => {
		const [, local = "", , state] = line.trim().split(/\s+/);
		if (state !== WAITING_STATE[protocol]) return [];
		const [hex = "", port = ""] = local.split(":");
		const address = parseHexAddress(hex);
		return address === undefined ? [] : [{ protocol, address, port: Number.parseInt(port, 16) }];
	});
}

/** True when one of the sockets has the port: on that address, or on any where none is asked for. */
export function isTakenBy(
	sockets: readonly WaitingSocket[],
	{ protocol, family, address, port }: HostPort,
): boolean {
	return sockets.some((socket) => {
		if (socket.protocol !== protocol || socket.port !== port) return false;
		if (socket.address === "::") return true;
		if (ipFamilyOf(socket.address) !== family) return false;
		return address === undefined || socket.address === "0.0.0.0" || socket.address === address;
	});
}

/**
 * The kernel lists the sockets that listen first: what comes behind them, as many lines as there are
 * connections, is not read.
 */
function readListening(path: string): string {
	const descriptor = openSync(path, "r");
	try {
		const buffer = Buffer.alloc(CHUNK_BYTES);
		let text = "";
		for (;;) {
			const length = readSync(descriptor, buffer);
			text += buffer.toString("latin1", 0, length);
			const lastLine = text.trimEnd().split("\n").at(-1) ?? "";
			const state = lastLine.trim().split(/\s+/)[3];
			if (length === 0 || (state !== undefined && state !== "st" && state !== "0A")) return text;
		}
	} finally {
		closeSync(descriptor);
	}
}

/** Words of four bytes, each in the order of a little-endian machine. */
function parseHexAddress(hex: string): IpAddress | undefined {
	const bytes = (hex.match(/.{8}/g) ?? []).flatMap((word) =>
		(word.match(/../g) ?? []).map((byte) => Number.parseInt(byte, 16)).toReversed(),
	);
	if (bytes.length === 4) return parseIpAddress(bytes.join("."));
	if (bytes.length !== 16) return undefined;
	const groups = Array.from({ length: 8 }, (_, index) =>
		(((bytes[2 * index] ?? 0) << 8) | (bytes[2 * index + 1] ?? 0)).toString(16),
	);
	return parseIpAddress(groups.join(":"));
}

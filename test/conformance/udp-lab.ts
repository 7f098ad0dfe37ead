import { createSocket, type RemoteInfo, type Socket } from "node:dgram";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { type IpAddress, parseIpAddress } from "../../src/services/address.ts";
import type { SessionAffinity } from "../../src/services/objects.ts";
import { toPort } from "../../src/services/port.ts";
import {
	type Endpoint,
	endpointKey,
	type ServicePort,
	servicePortKey,
	servicePortName,
} from "../../src/services/service-port.ts";
import { aVirtualAddress } from "../kit/bindings.ts";
import { aLoopbackAddress } from "../kit/loopback-addresses.ts";

/** What a loopback machine without other load may take for one thing; a wait that long has failed. */
const PATIENCE_MS = 5_000;

export function anAddress(text: string): IpAddress {
	const address = parseIpAddress(text);
	if (address === undefined) throw new RangeError(`Not an address: ${text}`);
	return address;
}

export function anEndpoint(address: string, port: number): Endpoint {
	const ip = anAddress(address);
	return {
		key: endpointKey(ip, toPort(port)),
		address: ip,
		port: toPort(port),
		nodeName: undefined,
		zone: undefined,
		podName: undefined,
	};
}

export interface UdpServicePortParts {
	readonly name?: string;
	readonly family?: "ipv4" | "ipv6";
	readonly sessionAffinity?: SessionAffinity;
	readonly pool?: ServicePort["pool"];
	readonly endpoints: readonly Endpoint[];
}

/** "lab/echo:dns", of which each test serves one or two. */
export function aUdpServicePort({
	name = "echo",
	family = "ipv4",
	sessionAffinity = { type: "None" },
	pool = "cluster",
	endpoints,
}: UdpServicePortParts): ServicePort {
	const identity = { namespace: "lab", serviceName: name, portName: "dns", family, pool };
	return {
		...identity,
		key: servicePortKey({ ...identity, protocol: "udp" }),
		name: servicePortName("lab", name, "dns"),
		protocol: "udp",
		port: toPort(53),
		virtualAddresses: [
			aVirtualAddress(anAddress(family === "ipv4" ? "10.96.0.53" : "fd10:96::35")),
		],
		nodePort: undefined,
		whenEmpty: "reject",
		sessionAffinity,
		endpoints,
	};
}

/** Waits until the condition holds. @throws after five seconds, naming `what`. */
export async function until(
	condition: () => boolean | Promise<boolean>,
	what: string,
): Promise<void> {
	const deadline = performance.now() + PATIENCE_MS;
	while (!(await condition())) {
		if (performance.now() > deadline) throw new Error(`Waited in vain until ${what}`);
		await new Promise((resolve) => setTimeout(resolve, 5));
	}
}

/** File descriptors of this process. */
export function descriptors(): number {
	return readdirSync("/proc/self/fd").length;
}

/** Closes what a test opened, whatever came of the test. */
export class Closer {
	readonly #closers: (() => void)[] = [];

	add<T extends { close(): unknown }>(closable: T): T {
		this.#closers.push(() => closable.close());
		return closable;
	}

	close(): void {
		for (const close of this.#closers.toReversed()) close();
		this.#closers.length = 0;
	}
}

/** An endpoint that answers each datagram as the test says; by default with the same. */
export class LabEndpoint {
	readonly received: { readonly datagram: Buffer; readonly from: RemoteInfo }[] = [];
	readonly #socket: Socket;
	#isClosed: boolean = false;

	private constructor(socket: Socket, answer: (datagram: Buffer, reply: Reply) => void) {
		this.#socket = socket;
		socket.on("error", () => {});
		socket.on("message", (datagram, from) => {
			this.received.push({ datagram, from });
			answer(datagram, (text) => {
				if (!this.#isClosed) socket.send(text, from.port, from.address);
			});
		});
	}

	static async open({
		answer = (datagram, reply) => reply(datagram),
		address = "127.0.0.1",
		port = 0,
	}: {
		readonly answer?: (datagram: Buffer, reply: Reply) => void;
		readonly address?: string;
		readonly port?: number;
	} = {}): Promise<LabEndpoint> {
		const socket = await boundSocket(address, port);
		return new LabEndpoint(socket, answer);
	}

	get endpoint(): Endpoint {
		const { address, port } = this.#socket.address();
		return anEndpoint(address, port);
	}

	get texts(): string[] {
		return this.received.map(({ datagram }) => datagram.toString());
	}

	close(): void {
		if (this.#isClosed) return;
		this.#isClosed = true;
		this.#socket.close();
	}
}

export type Reply = (text: Buffer | string) => void;

/** A client whose socket takes answers only from the address and port that it asked. */
export class LabClient {
	readonly answers: Buffer[] = [];
	readonly #socket: Socket;
	#isClosed: boolean = false;

	private constructor(socket: Socket) {
		this.#socket = socket;
		socket.on("error", () => {});
		socket.on("message", (datagram) => this.answers.push(datagram));
	}

	/** @param from the client's own address and port. */
	static async open(
		to: { readonly address: string; readonly port: number },
		from: { readonly address?: string; readonly port?: number } = {},
	): Promise<LabClient> {
		const home = to.address.includes(":") ? "::1" : "127.0.0.1";
		const socket = await boundSocket(from.address ?? home, from.port ?? 0);
		socket.connect(to.port, to.address);
		await once(socket, "connect");
		return new LabClient(socket);
	}

	get port(): number {
		return this.#socket.address().port;
	}

	send(text: Buffer | string): void {
		this.#socket.send(text);
	}

	/** Sends, and waits for one answer more than there are. */
	async ask(text: Buffer | string): Promise<Buffer> {
		const count = this.answers.length;
		this.send(text);
		await until(() => this.answers.length > count, `"${text.toString().slice(0, 40)}" is answered`);
		const answer = this.answers[count];
		if (answer === undefined) throw new Error("No answer");
		return answer;
	}

	async askText(text: string): Promise<string> {
		return (await this.ask(text)).toString();
	}

	close(): void {
		if (this.#isClosed) return;
		this.#isClosed = true;
		this.#socket.close();
	}
}

export async function boundSocket(address: string, port = 0): Promise<Socket> {
	const socket = createSocket({
		type: address.includes(":") ? "udp6" : "udp4",
		recvBufferSize: 4 * 1024 * 1024,
	});
	socket.bind({ address, port, exclusive: true });
	await once(socket, "listening");
	return socket;
}

/** An endpoint on loopback where nobody listens, and nobody but its test will. */
export function aDeadEndpoint(): Endpoint {
	return anEndpoint(aLoopbackAddress(), toPort(8080));
}

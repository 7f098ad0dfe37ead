import { createServer, type Server, type Socket } from "node:net";

import type { Balancer } from "../../balancing/pick.ts";
import { type IpAddress, parseIpAddress } from "../../services/address.ts";
import { type Port, toPort } from "../../services/port.ts";
import type { ServicePort } from "../../services/service-port.ts";
import type { ListenTarget, RelayedPort, ServicePortListener } from "../listener.ts";
import { SOCKET_OPTIONS } from "./socket-options.ts";
import type { AcceptedClient } from "./tcp-connection.ts";

/** The kernel caps it to net.core.somaxconn (4096 since Linux 5.4); Node's own default is 511. */
const BACKLOG = 4096;

export interface TcpListenerOptions {
	readonly servicePort: ServicePort;
	readonly target: ListenTarget;
	readonly balancer: Balancer;
	/** The client's socket has no `error` listener yet: the receiver adds one before it returns. */
	onClient(client: AcceptedClient): void;
	/** Accepting failed, or the listening socket did. It goes on as far as it can. */
	onError(error: Error): void;
}

/**
 * Opens the listener of one TCP ServicePort.
 *
 * Rejects with the system's error; nothing of it is open then.
 */
export function openTcpListener(options: TcpListenerOptions): Promise<ServicePortListener> {
	const { servicePort, target } = options;
	const server = createServer({ ...SOCKET_OPTIONS, pauseOnConnect: true });
	return new Promise((resolve, reject) => {
		// For life: what comes after the promise has settled is for the options' handler.
		server.on("error", (error) => {
			if (server.listening) options.onError(error);
			else reject(error);
		});
		server.listen(
			{
				host: target.address ?? (servicePort.family === "ipv4" ? "0.0.0.0" : "::"),
				port: target.port,
				// IPv4 clients have a listener, a port and endpoints of their own.
				ipv6Only: servicePort.family === "ipv6",
				backlog: BACKLOG,
			},
			() => resolve(new TcpListener(server, options)),
		);
	});
}

class TcpListener implements ServicePortListener {
	readonly proxyPort: Port;
	readonly listenAddress: IpAddress | undefined;
	readonly balancer: Balancer;
	readonly #server: Server;
	readonly #options: TcpListenerOptions;
	#servicePort: RelayedPort;

	constructor(server: Server, options: TcpListenerOptions) {
		this.proxyPort = boundPort(server);
		this.listenAddress = options.target.address;
		this.balancer = options.balancer;
		this.#server = server;
		this.#options = options;
		this.#servicePort = options.servicePort;
		this.update(options.servicePort);
		server.on("connection", (socket) => this.#onConnection(socket));
	}

	update(servicePort: RelayedPort): void {
		this.#servicePort = servicePort;
		this.balancer.update(servicePort.endpoints, servicePort.sessionAffinity);
	}

	failingEndpoints(): readonly string[] {
		return this.balancer.failing();
	}

	close(): void {
		// The descriptor is closed at once; the callback would wait for the connections.
		if (this.#server.listening) this.#server.close();
	}

	#onConnection(socket: Socket): void {
		const { remoteAddress, remotePort } = socket;
		const address = clientAddress(remoteAddress);
		if (address === undefined || remotePort === undefined) {
			// Reset before we came to it: the kernel no longer knows who it was.
			socket.on("error", () => {});
			socket.destroy();
			return;
		}
		this.#options.onClient({
			socket,
			address,
			port: remotePort,
			servicePort: this.#servicePort,
			balancer: this.balancer,
		});
	}
}

/** Without the zone of a link-local address: the same client whatever the interface is called. */
function clientAddress(text: string | undefined): IpAddress | undefined {
	if (text === undefined) return undefined;
	const zone = text.indexOf("%");
	return parseIpAddress(zone === -1 ? text : text.slice(0, zone));
}

function boundPort(server: Server): Port {
	const bound = server.address();
	if (bound === null || typeof bound === "string") {
		throw new TypeError("Cannot tell the port of a server that does not listen on one");
	}
	return toPort(bound.port);
}

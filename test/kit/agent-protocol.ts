/**
 * What a test tells a traffic agent and what it answers: one JSON object a line over stdio. The agent
 * runs inside a namespace, so that real sockets with real addresses make the traffic.
 */

export type TcpMode =
	/** Writes its name at once and ends its direction. */
	| "greet"
	/** Sends back what comes. */
	| "echo"
	/** HTTP/1.1 with keep-alive; the answer's body is the request's, or else its name. */
	| "http"
	/** Reads to the end, then answers "NAME BYTES SHA256" and ends. */
	| "upload"
	/** Sends `bytes` bytes of the pattern and ends. */
	| "download"
	/** Sends its name and ends its direction at once, then reads what comes to the end. */
	| "farewell"
	/** Reads and never answers. */
	| "sink"
	/** Accepts, never reads, never answers. */
	| "silent"
	/** Resets the connection at its first byte. */
	| "reset";

export type UdpMode =
	/** Answers each datagram with its name. */
	| "name"
	| "echo"
	/** Counts, never answers. */
	| "sink";

export interface ServeTcp {
	readonly mode: TcpMode;
	/** What it answers with: "ep1". */
	readonly name: string;
	readonly port: number;
	/** Default: every address of both families. */
	readonly address?: string;
	/** For "download". */
	readonly bytes?: number;
}

export interface ServeUdp {
	readonly mode: UdpMode;
	readonly name: string;
	readonly port: number;
	/** Default: every IPv4 address; "::" for every address of both families. */
	readonly address?: string;
}

export interface ServerStats {
	/** TCP: connections accepted; UDP: datagrams received. */
	readonly received: number;
	/** TCP: connections open now. */
	readonly open: number;
	readonly bytes: number;
	/** The client addresses seen, "10.2.1.1:41234", newest last, at most 1,000. */
	readonly clients: readonly string[];
}

export interface TcpTraffic {
	readonly address: string;
	readonly port: number;
	/** Connections to make; default 1, at most 20,000. */
	readonly count?: number;
	/** At most so many at once; default 1, at most 500. */
	readonly concurrency?: number;
	/** Sent after connecting; default nothing. */
	readonly send?: string;
	/** Bytes of the pattern sent after `send`. */
	readonly sendBytes?: number;
	/**
	 * What the client does after sending. "half-close" (default): FIN, then read to the end.
	 * "read": read to the end, FIN only then. "connect": close as soon as connected. "reset": RST as
	 * soon as sent. A number: close after so many bytes of answer.
	 */
	readonly after?: "half-close" | "read" | "connect" | "reset" | number;
	readonly localAddress?: string;
	/** For each connection, from the start to its end; default 5,000, at most 60,000. */
	readonly timeoutMs?: number;
}

export interface TcpResult {
	/** The answer's text without the last line end, cut to 1,000 characters. */
	readonly answer: string;
	readonly bytes: number;
	/** Of the whole answer; undefined when there was none. */
	readonly sha256: string | undefined;
	/** The system's code ("ECONNREFUSED"), "TIMEOUT", or undefined when all went well. */
	readonly error: string | undefined;
	/** False: it failed while connecting. */
	readonly connected: boolean;
	/** From the start to the end of the connection. */
	readonly ms: number;
	readonly localPort: number | undefined;
}

export interface UdpTraffic {
	readonly address: string;
	readonly port: number;
	/** Datagrams to send; default 1, at most 20,000. */
	readonly count?: number;
	/** True: a socket, so a source port, for each datagram; default: one socket for all. */
	readonly socketEach?: boolean;
	/** Default: the next one that was not used lately. With `socketEach` the first of as many in a row. */
	readonly localPort?: number;
	/** Payload; default "?". */
	readonly send?: string;
	/** Instead of `send`: so many bytes of the pattern, at most 65,507. */
	readonly sendBytes?: number;
	/** True: a connected socket, which sees "port unreachable" and takes answers from that address only. */
	readonly connected?: boolean;
	/** Between the end of one exchange and the next datagram, in milliseconds; default 0. */
	readonly pauseMs?: number;
	/** For each answer; default 1,000, at most 60,000. */
	readonly timeoutMs?: number;
}

export interface UdpResult {
	/** Cut to 1,000 characters; "" when none came. */
	readonly answer: string;
	readonly bytes: number;
	readonly sha256: string | undefined;
	/** Where the answer came from: "10.96.0.53:53". */
	readonly from: string | undefined;
	/** "ECONNREFUSED" (connected sockets), "TIMEOUT", or undefined when an answer came. */
	readonly error: string | undefined;
	readonly ms: number;
	readonly localPort: number | undefined;
}

export interface HttpAnswer {
	readonly status: number;
	readonly contentType: string;
	readonly body: string;
}

export interface ConnectionState {
	/** What was read since the last time it was asked for, cut to 1,000 characters. */
	readonly text: string;
	/** All bytes read until now. */
	readonly bytes: number;
	/** Of all bytes read until now. */
	readonly sha256: string;
	/** The peer has sent FIN and all before it was read. */
	readonly ended: boolean;
	readonly closed: boolean;
	readonly error: string | undefined;
	readonly localPort: number | undefined;
}

/** Every command: what it takes and what it answers. */
export interface AgentCommands {
	serveTcp: { takes: ServeTcp; gives: { server: number; port: number } };
	serveUdp: { takes: ServeUdp; gives: { server: number; port: number } };
	serverStats: { takes: { server: number }; gives: ServerStats };
	closeServer: { takes: { server: number; abruptly: boolean }; gives: Record<string, never> };
	forget: { takes: Record<string, never>; gives: Record<string, never> };
	tcp: { takes: TcpTraffic; gives: TcpResult[] };
	udp: { takes: UdpTraffic; gives: UdpResult[] };
	httpGet: {
		takes: { url: string; method?: string; body?: string; timeoutMs?: number };
		gives: HttpAnswer;
	};
	open: {
		takes: { address: string; port: number; localAddress?: string; timeoutMs?: number };
		gives: { connection: number };
	};
	write: {
		takes: { connection: number; send?: string; sendBytes?: number; timeoutMs?: number };
		gives: { flushed: boolean };
	};
	read: {
		takes: { connection: number; until: "end" | "closed" | number; timeoutMs?: number };
		gives: ConnectionState;
	};
	state: { takes: { connection: number }; gives: ConnectionState };
	finish: {
		takes: { connection: number; how: "end" | "reset" | "destroy" };
		gives: ConnectionState;
	};
}

export type CommandName = keyof AgentCommands;

export interface AgentRequest<Name extends CommandName = CommandName> {
	readonly id: number;
	readonly command: Name;
	readonly takes: AgentCommands[Name]["takes"];
}

export type AgentReply =
	| { readonly id: number; readonly gives: unknown }
	| { readonly id: number; readonly failed: string; readonly code: string | undefined };

import type { DialOutcome } from "../services/connection-record.ts";

/**
 * What each error of connect(2) says, and of having the socket watched (ENOSPC: epoll's watches are used up), and ELOOP:
 * our own, for an endpoint that is one of our listeners. What is not here says "unreachable". A "local-error" is what
 * this node lacks: the end of another connection gives it back.
 */
const OUTCOMES: Readonly<Record<string, "refused" | "timeout" | "local-error">> = {
	ECONNREFUSED: "refused",
	ECONNRESET: "refused",
	ELOOP: "refused",
	ETIMEDOUT: "timeout",
	EMFILE: "local-error",
	ENFILE: "local-error",
	ENOBUFS: "local-error",
	ENOMEM: "local-error",
	ENOSPC: "local-error",
	EAGAIN: "local-error",
	EADDRINUSE: "local-error",
	EADDRNOTAVAIL: "local-error",
};

/** What a failed dial says, by the system's error code. */
export function dialOutcomeOf(
	code: string | undefined,
): Exclude<DialOutcome, "connected" | "abandoned"> {
	return OUTCOMES[code ?? ""] ?? "unreachable";
}

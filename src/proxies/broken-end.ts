import type { ConnectionEnd } from "../services/connection-record.ts";

/** What the kernel says when nobody answers any more, rather than that the peer has hung up. */
const VANISHED: ReadonlySet<string> = new Set([
	"ETIMEDOUT",
	"EHOSTUNREACH",
	"EHOSTDOWN",
	"ENETUNREACH",
	"ENETDOWN",
]);

export type BrokenEnd = Extract<
	ConnectionEnd,
	"client-reset" | "endpoint-reset" | "client-vanished" | "endpoint-vanished"
>;

/** How a connection ends by an error of one side's socket. */
export function brokenEnd(side: "client" | "endpoint", code: string | undefined): BrokenEnd {
	return VANISHED.has(code ?? "") ? `${side}-vanished` : `${side}-reset`;
}

import type { IncomingHttpHeaders } from "node:http";

/** Set by proxies that stand in front: the peer that we see is then not who asks. */
const FORWARDING_HEADERS = ["forwarded", "x-forwarded-for", "x-real-ip", "via"] as const;

/**
 * Why a request may not see or change what is for this host's own people only; undefined: it may.
 *
 * The peer must be on loopback (a node address would not do: our own relay dials from it). And it
 * must not be a browser that a web page uses: the Host header must be one that no DNS name of somebody
 * else can have, and pages of other origins send Origin or Sec-Fetch-Site.
 */
export function refusalOfLocalRequest(request: {
	readonly headers: IncomingHttpHeaders;
	readonly socket: { readonly remoteAddress?: string | undefined };
}): string | undefined {
	const { headers, socket } = request;
	if (!isLoopback(socket.remoteAddress)) return "only for clients on this host, over loopback";
	if (!isLoopbackHost(headers.host))
		return "the Host header must be localhost or a loopback address";
	if (headers.origin !== undefined) return "not for web pages";
	const site = headers["sec-fetch-site"];
	if (site !== undefined && site !== "none" && site !== "same-origin") return "not for web pages";
	if (FORWARDING_HEADERS.some((name) => headers[name] !== undefined)) return "not through a proxy";
	return undefined;
}

export function isLoopback(address: string | undefined): boolean {
	if (address === undefined) return false;
	return address === "::1" || /^(::ffff:)?127\.\d+\.\d+\.\d+$/.test(address);
}

function isLoopbackHost(host: string | undefined): boolean {
	return /^(localhost|127\.\d{1,3}\.\d{1,3}\.\d{1,3}|\[::1\])(:\d{1,5})?$/i.test(host ?? "");
}

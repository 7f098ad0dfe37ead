import { formatSocketAddress, parseIpAddress } from "../services/address.ts";
import { isPort, type Port } from "../services/port.ts";
import type { ListenAddress } from "./config.ts";

/**
 * Reads "ip", "ip:port", "[ip]", "[ip]:port", or a bare IPv6 address.
 *
 * @param defaultPort taken where the text has none, as kube-proxy does.
 * @returns undefined if it is none of these; host names are not resolved.
 */
export function parseListenAddress(text: string, defaultPort: Port): ListenAddress | undefined {
	const bare = parseIpAddress(text);
	if (bare !== undefined) return { address: bare, port: defaultPort };
	const parts = /^(?:\[([^\]]*:[^\]]*)\]|([^:[\]]+))(?::(\d{1,5}))?$/.exec(text);
	if (parts === null) return undefined;
	const address = parseIpAddress(parts[1] ?? parts[2] ?? "");
	const port = parts[3] === undefined ? defaultPort : Number(parts[3]);
	return address === undefined || !isPort(port) ? undefined : { address, port };
}

/** "0.0.0.0:10256", "[::]:10256"; "" for none. */
export function formatListenAddress(listen: ListenAddress | undefined): string {
	return listen === undefined ? "" : formatSocketAddress(listen.address, listen.port);
}

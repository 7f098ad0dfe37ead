import { parseIpAddress } from "../../src/services/address.ts";
import type { Carried, Target } from "./setting.ts";
import { UsageError } from "./usage-error.ts";

/** A proxy that somebody else runs, as `--peer` and its like name it. */
export interface PeerAddress {
	readonly name: string;
	readonly target: Target;
}

const CARRIED = {
	"--peer": "http",
	"--peer-bulk": "bulk",
	"--peer-udp": "udp",
} as const satisfies Readonly<Record<string, Carried>>;

type PeerFlag = keyof typeof CARRIED;

/**
 * @param given the values of each flag, `NAME=HOST:PORT`; those of one name are one peer.
 * @param taken names that no peer may have.
 * @throws {UsageError}
 */
export function readPeers(
	given: Readonly<Record<PeerFlag, readonly string[]>>,
	taken: readonly string[],
): readonly PeerAddress[] {
	const peers = new Map<string, PeerAddress>();
	for (const flag of Object.keys(CARRIED) as readonly PeerFlag[]) {
		for (const text of given[flag]) {
			const { name, address, port } = readPeer(flag, text);
			if (taken.includes(name)) {
				throw new UsageError(
					`${flag}: wanted a name of its own, got "${name}", which has one already`,
				);
			}
			const target: Target = peers.get(name)?.target ?? { address, ports: {} };
			const carried = CARRIED[flag];
			if (target.address !== address || target.ports[carried] !== undefined) {
				throw new UsageError(
					`${flag}: wanted one address and one port of "${name}", got "${text}", too`,
				);
			}
			const ports = { ...target.ports, [carried]: port };
			peers.set(name, { name, target: { address, ports } });
		}
	}
	return [...peers.values()];
}

function readPeer(flag: PeerFlag, text: string) {
	const [, name = "", host = "", portText = ""] = /^([\w.-]+)=(.+):(\d+)$/.exec(text) ?? [];
	const address = parseIpAddress(host.replace(/^\[(.*)\]$/, "$1"));
	const port = Number(portText);
	if (name === "" || address === undefined || port < 1 || port > 65_535) {
		throw new UsageError(
			`${flag}: wanted NAME=HOST:PORT, where HOST is an IP address, got "${text}"`,
		);
	}
	return { name, address, port };
}

import { setTimeout as sleep } from "node:timers/promises";
import type { Contender } from "./contenders.ts";
import { runIperf3 } from "./loads/iperf3.ts";
import { runUdpLoad } from "./loads/udp.ts";
import { runWrk } from "./loads/wrk.ts";
import type { PeerAddress } from "./peer-addresses.ts";
import type { Carried, Setting } from "./setting.ts";

/** Somebody has to start them by hand, in a lab that has just come to be. */
const WAIT_MS = 10 * 60_000;
const ASK_AGAIN_MS = 1_000;

/** A proxy that runs already, and goes on running while others are measured. */
export function contenderAt({ name, target }: PeerAddress): Contender {
	return {
		name,
		isDefault: true,
		isOurs: false,
		carries: Object.keys(target.ports) as readonly Carried[],
		hasProcesses: false,
		start: () => Promise.resolve({ target, pids: [], stop: () => Promise.resolve() }),
	};
}

/** Where such a proxy has to run, and where it has to lead. */
export function explainLab(
	{ lab, endpoint }: Setting,
	peers: readonly PeerAddress[],
	privateTo: number | undefined,
): string {
	const { address, ports } = endpoint;
	const enter =
		privateTo === undefined
			? ""
			: `nsenter --preserve-credentials --user --mount --target ${privateTo} `;
	return [
		`The endpoint listens on ${address}: HTTP on port ${ports.http}, iperf3 on ${ports.bulk}, UDP echo on ${ports.udp}.`,
		`Start what leads there in the node's namespace (its addresses: ${lab.node.ipv4} for the client; ${lab.node.ipv6}):`,
		`    ${enter}ip netns exec ${lab.node.name} …`,
		`The client's namespace is ${lab.client.name}. Waiting up to ${WAIT_MS / 60_000} minutes for ${peers.map(({ name }) => name).join(", ")} to answer there.`,
		"",
	].join("\n");
}

/**
 * Waits until each peer carries all that it is said to.
 *
 * @throws {Error} with what is missing, after ten minutes.
 */
export async function waitForPeers(setting: Setting, peers: readonly PeerAddress[]): Promise<void> {
	const endMs = performance.now() + WAIT_MS;
	for (const { name, target } of peers) {
		for (const carried of Object.keys(target.ports) as readonly Carried[]) {
			// oxlint-disable-next-line no-await-in-loop -- one after the other has to be there
			await waitFor(() => tryOut(setting, target.address, carried, target.ports[carried] ?? 0), {
				endMs,
				what: `${name} at ${target.address}, port ${target.ports[carried]} (${carried})`,
			});
		}
	}
}

async function waitFor(
	attempt: () => Promise<unknown>,
	{ endMs, what }: { readonly endMs: number; readonly what: string },
): Promise<void> {
	for (;;) {
		try {
			// oxlint-disable-next-line no-await-in-loop -- asks until it answers, within the limit
			await attempt();
			return;
		} catch (error) {
			if (performance.now() > endMs) {
				throw new Error(`Nobody answers for ${what} within ${WAIT_MS / 60_000} minutes`, {
					cause: error,
				});
			}
		}
		// oxlint-disable-next-line no-await-in-loop -- see above
		await sleep(ASK_AGAIN_MS);
	}
}

/** The smallest load of its kind: an open port alone says nothing of what is behind it. */
function tryOut(
	{ lab: { client } }: Setting,
	address: string,
	carried: Carried,
	port: number,
): Promise<unknown> {
	const place = { address, port, seconds: 1 };
	switch (carried) {
		case "http":
			return runWrk(client, { ...place, connections: 1, isKept: true });
		case "bulk":
			return runIperf3(client, { ...place, streams: 1 });
		case "udp":
			return runUdpLoad(client, { ...place, flows: 1, bytes: 64 });
	}
}

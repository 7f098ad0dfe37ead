import type { RelayedPort } from "../listener.ts";

/** A {@link RelayedPort} as a text: one thing to copy to another thread and to keep, however many endpoints it has. */
export function writeRelayedPort(servicePort: RelayedPort): string {
	const { name, family, endpoints, sessionAffinity } = servicePort;
	const port: RelayedPort = { name, family, endpoints, sessionAffinity };
	return JSON.stringify(port);
}

/** @param text of {@link writeRelayedPort}. */
export function readRelayedPort(text: string): RelayedPort {
	// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- written by the function above
	return JSON.parse(text) as RelayedPort;
}

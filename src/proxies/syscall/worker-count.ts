/** Of all descriptors for relaying, what further sockets of ServicePorts may take: a quarter. */
const MAX_EXTRA_SHARE = 1 / 4;

/**
 * How many workers listen for a ServicePort, each at a socket of its own.
 *
 * One, where it has session affinity: what is known of clients is in one thread. Else all, so that the
 * kernel deals clients out to them, as long as the second and further sockets of all ServicePorts take
 * no more than a quarter of the descriptors: then one.
 */
export function workerCountFor(place: {
	readonly workers: number;
	readonly hasAffinity: boolean;
	/** Second and further sockets that are open already. */
	readonly extraSockets: number;
	/** Descriptors for relaying, in use or not. */
	readonly descriptorLimit: number;
}): number {
	const { workers, hasAffinity, extraSockets, descriptorLimit } = place;
	if (hasAffinity) return 1;
	const extra = extraSockets + workers - 1;
	return extra <= descriptorLimit * MAX_EXTRA_SHARE ? workers : 1;
}

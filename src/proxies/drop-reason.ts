/** Why a datagram was not passed on; what docs/observing.md explains to operators. */
export const DROP_REASONS = [
	/** The ServicePort has no endpoint. */
	"no-endpoint",
	/** No descriptor, port or memory for a new flow, and no other flow to take it from. */
	"no-descriptor",
	/** The kernel takes no more towards the endpoint, or too much waits for that already. */
	"queue-full",
	/** The endpoint answered "nobody listens here", or has no route, and no other is left to try. */
	"refused",
	/** Sending to the endpoint failed otherwise: too long, forbidden by a packet filter. */
	"send-failed",
	/** The kernel takes no more towards the clients. */
	"answer-queue-full",
	/** Sending to the client failed. */
	"answer-failed",
	/** The flow ended while the datagram waited in it. */
	"flow-ended",
	/** It came to a flow's socket and not from the flow's endpoint. */
	"foreign-sender",
	/** Reading from a listener's socket failed; whatever it was is lost. */
	"receive-failed",
	/** Its source is no address and port that could be answered. */
	"bad-source",
] as const;

export type DropReason = (typeof DROP_REASONS)[number];

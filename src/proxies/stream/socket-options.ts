/**
 * How long a connection is silent before the kernel asks whether the peer is still there, as
 * kube-proxy had it. libuv then asks every second, ten times: a peer that vanished is found within
 * 25 s.
 */
const KEEPALIVE_IDLE_MS = 15_000;

/** Both legs of a relay: each direction ends by itself, small writes go at once, dead peers are found. */
export const SOCKET_OPTIONS = {
	allowHalfOpen: true,
	noDelay: true,
	keepAlive: true,
	keepAliveInitialDelay: KEEPALIVE_IDLE_MS,
} as const;

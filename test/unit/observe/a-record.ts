import { parseIpAddress } from "../../../src/services/address.ts";
import type { ConnectionRecord, ConnectionStart } from "../../../src/services/connection-record.ts";

/** An orderly TCP connection; a test gives what it is about. */
export function aRecord(overrides: Partial<ConnectionRecord> = {}): ConnectionRecord {
	return {
		id: "1f3",
		protocol: "tcp",
		family: "ipv4",
		service: "shop/cart:http",
		client: "10.1.0.2:41234",
		endpoint: "10.2.1.2:8080",
		podName: "web-1",
		attempts: [
			{ endpoint: "10.2.1.2:8080", outcome: "connected", durationMs: 0.42, errorCode: undefined },
		],
		attemptCount: 1,
		affinity: undefined,
		bytesIn: 312,
		bytesOut: 4_100,
		datagramsIn: undefined,
		datagramsOut: undefined,
		startedAtMs: 1_700_000_000_000,
		durationMs: 12.34,
		connectMs: 0.52,
		end: "closed",
		...overrides,
	};
}

/** The same after one endpoint had refused. */
export function aRetriedRecord(overrides: Partial<ConnectionRecord> = {}): ConnectionRecord {
	return aRecord({
		attempts: [
			{
				endpoint: "10.2.2.2:8080",
				outcome: "refused",
				durationMs: 1.04,
				errorCode: "ECONNREFUSED",
			},
			{ endpoint: "10.2.1.2:8080", outcome: "connected", durationMs: 0.4, errorCode: undefined },
		],
		attemptCount: 2,
		...overrides,
	});
}

/** What is told when a connection begins; a test names only the fields it is about. */
export function aStart(overrides: Partial<ConnectionStart> = {}): ConnectionStart {
	const clientAddress = parseIpAddress("10.1.0.2");
	if (clientAddress === undefined) throw new TypeError("fixture");
	return {
		id: "1",
		protocol: "tcp",
		service: "shop/cart:http",
		clientAddress,
		clientPort: 41_234,
		...overrides,
	};
}

import {
	type ConnectionEnd,
	type ConnectionRecord,
	type DialAttempt,
	hadFailedAttempt,
} from "../services/connection-record.ts";
import type { Protocol } from "../services/service-port.ts";

/** One connection as the log, `/connections` and `kube-userproxy connections --json` have it. */
export interface ConnectionFields {
	readonly id: string;
	readonly service: string;
	readonly protocol: Protocol;
	readonly client: string;
	readonly endpoint?: string;
	readonly pod?: string;
	/** Only where there is something to tell: more than one, or one that failed. */
	readonly attempts?: readonly AttemptFields[];
	/** Only where there were more than `attempts` holds. */
	readonly attemptCount?: number;
	readonly affinity?: "kept" | "assigned" | "moved";
	readonly bytesIn: number;
	readonly bytesOut: number;
	/** UDP only. */
	readonly datagramsIn?: number;
	readonly datagramsOut?: number;
	/** Milliseconds, to a tenth, as are all times here. */
	readonly connectMs?: number;
	readonly durationMs: number;
	readonly end: ConnectionEnd;
}

export interface AttemptFields {
	readonly endpoint: string;
	readonly outcome: DialAttempt["outcome"];
	readonly ms: number;
	readonly code?: string;
}

export function toConnectionFields(record: ConnectionRecord): ConnectionFields {
	const tellsAttempts = hadFailedAttempt(record);
	return {
		id: record.id,
		service: record.service,
		protocol: record.protocol,
		client: record.client,
		...optional("endpoint", record.endpoint),
		...optional("pod", record.podName),
		...(tellsAttempts ? { attempts: record.attempts.map(toAttemptFields) } : {}),
		...(record.attemptCount > record.attempts.length ? { attemptCount: record.attemptCount } : {}),
		...optional("affinity", record.affinity),
		bytesIn: record.bytesIn,
		bytesOut: record.bytesOut,
		...optional("datagramsIn", record.datagramsIn),
		...optional("datagramsOut", record.datagramsOut),
		...optional("connectMs", record.connectMs === undefined ? undefined : tenths(record.connectMs)),
		durationMs: tenths(record.durationMs),
		end: record.end,
	};
}

function toAttemptFields({ endpoint, outcome, durationMs, errorCode }: DialAttempt): AttemptFields {
	return { endpoint, outcome, ms: tenths(durationMs), ...optional("code", errorCode) };
}

function tenths(ms: number): number {
	return Math.round(ms * 10) / 10;
}

function optional<Name extends string, Value>(
	name: Name,
	value: Value | undefined,
): { readonly [key in Name]?: Value } {
	if (value === undefined) return {};
	// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a computed key is typed as string
	return { [name]: value } as { [key in Name]: Value };
}

import { ExecPluginError } from "./exec-plugin-error.ts";
import { isRecord } from "./records.ts";

/** What an exec plugin gave. Holds secrets. */
export interface ExecCredential {
	readonly token: string | undefined;
	/** PEM; both or none. */
	readonly cert: string | undefined;
	readonly key: string | undefined;
	/** In milliseconds since the epoch; undefined: good until the server refuses it. */
	readonly expiresAtMs: number | undefined;
}

/**
 * Reads what an exec plugin printed.
 *
 * @throws {ExecPluginError} that quotes nothing of it: it is a secret.
 */
export function parseExecCredential(command: string, text: string): ExecCredential {
	const fail = (why: string) => new ExecPluginError(command, why);
	let printed: unknown;
	try {
		printed = JSON.parse(text);
	} catch {
		throw fail("did not print JSON");
	}
	const status = isRecord(printed) ? printed["status"] : undefined;
	if (!isRecord(status)) throw fail("printed no ExecCredential with a status");
	const token = textOf(status["token"]);
	const cert = textOf(status["clientCertificateData"]);
	const key = textOf(status["clientKeyData"]);
	if ((cert === undefined) !== (key === undefined)) {
		throw fail("printed only one of certificate and key");
	}
	if (token === undefined && cert === undefined) {
		throw fail("printed neither a token nor a certificate");
	}
	return { token, cert, key, expiresAtMs: expiryOf(status["expirationTimestamp"]) };
}

function textOf(value: unknown): string | undefined {
	return typeof value === "string" && value !== "" ? value : undefined;
}

/** What cannot be read has expired already: asking again is right, if not cheap. */
function expiryOf(timestamp: unknown): number | undefined {
	if (timestamp === undefined || timestamp === null || timestamp === "") return undefined;
	const ms = typeof timestamp === "string" ? Date.parse(timestamp) : Number.NaN;
	return Number.isNaN(ms) ? 0 : ms;
}

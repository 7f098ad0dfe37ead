import { UserProxyError } from "../../shared/errors.ts";
import { oneLine } from "../one-line.ts";
import { isRecord } from "./records.ts";

/** What a request failed of; what to do next is decided by it. */
export type ApiErrorCode =
	/** No usable credentials, so no request was made. */
	| "credentials"
	/** The server could not be reached at all: refused, no route, no such name, no answer to a SYN. */
	| "unreachable"
	/** The TLS handshake failed: bad CA, expired, wrong host name, not TLS. */
	| "tls"
	/** The connection broke after it was there. */
	| "lost"
	/** The server is there and does not answer, or not on. */
	| "timeout"
	/** No byte within the idle bound of a watch: opened anew, not a failure. */
	| "idle"
	/** A body or a line beyond our bounds. */
	| "too-big"
	/** Something that no API server sends. */
	| "bad-answer"
	/** JSON of another kind than was asked for. */
	| "wrong-kind"
	/** An HTTP status, or an ERROR event, that has no code of its own below. */
	| "status"
	/** 410: the resourceVersion or the continue token is too old. */
	| "expired"
	/** The resourceVersion is newer than what this server has seen. */
	| "version-too-large"
	/** A watch ended at once, without an event. */
	| "ended-at-once";

export interface ApiErrorDetails {
	readonly status?: number | undefined;
	/** The server's wish, in milliseconds, as it came. */
	readonly retryAfterMs?: number | undefined;
	/** What the server said, for decisions that only its text allows. */
	readonly serverMessage?: string | undefined;
	readonly cause?: unknown;
}

/**
 * A request to the API server failed. The message is one line for a person, says what to do, has no
 * secret in it, and is the same each time for the same failure.
 */
export class ApiError extends UserProxyError {
	readonly code: ApiErrorCode;
	readonly retriable = true;
	readonly status: number | undefined;
	readonly retryAfterMs: number | undefined;
	readonly serverMessage: string;

	constructor(code: ApiErrorCode, message: string, details: ApiErrorDetails = {}) {
		super(message, details.cause === undefined ? undefined : { cause: details.cause });
		this.code = code;
		this.status = details.status;
		this.retryAfterMs = details.retryAfterMs;
		this.serverMessage = details.serverMessage ?? "";
	}
}

/** True where waiting does not help and a person must act. */
export function needsPerson(error: ApiError): boolean {
	if (error.code === "credentials" || error.code === "tls") return true;
	return error.status === 401 || error.status === 403 || error.status === 404;
}

/** What was asked for, as far as messages need it. */
export interface Asked {
	/** "https://192.0.2.10:6443". */
	readonly server: string;
	readonly verb: "get" | "list" | "watch";
	readonly plural: string;
	readonly group: string;
	readonly path: string;
	/** Where the credentials come from: "kubeconfig /etc/kube.conf". */
	readonly credentials: string;
}

/** The parts of a Status object that decisions need; every field may lie or be missing. */
export interface StatusObject {
	readonly code: number | undefined;
	readonly reason: string;
	readonly message: string;
	readonly versionTooLarge: boolean;
	readonly retryAfterMs: number | undefined;
}

export function parseStatus(raw: unknown): StatusObject {
	const status = isRecord(raw) ? raw : {};
	const details = isRecord(status["details"]) ? status["details"] : {};
	const causes = Array.isArray(details["causes"]) ? details["causes"] : [];
	const message = textOf(status["message"]);
	const seconds = details["retryAfterSeconds"];
	return {
		code: typeof status["code"] === "number" ? status["code"] : undefined,
		reason: textOf(status["reason"]),
		message,
		// Servers before 1.18 send no cause: client-go looks at the text too.
		versionTooLarge:
			causes.some((cause) => isRecord(cause) && cause["reason"] === "ResourceVersionTooLarge") ||
			message.includes("Too large resource version"),
		retryAfterMs: typeof seconds === "number" && seconds > 0 ? seconds * 1_000 : undefined,
	};
}

/** The error for an HTTP status other than 200, or for an ERROR event of a watch. */
export function statusError(
	asked: Asked,
	httpStatus: number,
	raw: unknown,
	retryAfterMs: number | undefined,
): ApiError {
	const status = parseStatus(raw);
	const details = {
		status: httpStatus,
		retryAfterMs: retryAfterMs ?? status.retryAfterMs,
		serverMessage: status.message,
	};
	if (httpStatus === 410 || status.reason === "Expired" || status.reason === "Gone") {
		const message = `The API server at ${asked.server} no longer knows the version of ${asked.plural} that was asked for`;
		return new ApiError("expired", message, details);
	}
	if (status.versionTooLarge) {
		const message = `The API server at ${asked.server} is behind the version of ${asked.plural} that was asked for`;
		return new ApiError("version-too-large", message, details);
	}
	return new ApiError("status", describeStatus(asked, httpStatus, status), details);
}

function describeStatus(asked: Asked, httpStatus: number, status: StatusObject): string {
	const server = `The API server at ${asked.server}`;
	const said = saidBy(status.message);
	switch (httpStatus) {
		case 401:
			return `${server} does not accept our credentials (401): check the token or client certificate of ${asked.credentials}`;
		case 403:
			return `${server} denies us "${asked.verb}" on "${asked.plural}" in API group "${asked.group}" (403): grant it as deploy/rbac.yaml does, or use other credentials than ${asked.credentials}${said}`;
		case 404:
			return `${server} does not serve ${asked.path} (404): check that the address is that of a Kubernetes API server${said}`;
		case 429:
			return `${server} is busy and asks to wait before "${asked.verb}" on "${asked.plural}" (429)`;
		default: {
			const plainHttp = status.message.includes("HTTP request to an HTTPS server");
			if (plainHttp) return `${server} speaks TLS: give its address with https://`;
			if (httpStatus >= 300 && httpStatus < 400) {
				return `${server} answers with a redirect (${httpStatus}), which is not followed: give the address that it leads to`;
			}
			return `${server} answers "${asked.verb}" on "${asked.plural}" with status ${httpStatus}${said}`;
		}
	}
}

/** The server's own words, made fit for one line of a log. */
function saidBy(message: string): string {
	const text = oneLine(message, 200);
	return text === "" ? "" : `; it says: ${text}`;
}

function textOf(value: unknown): string {
	return typeof value === "string" ? value : "";
}

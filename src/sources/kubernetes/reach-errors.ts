import { errorCode } from "../../shared/errors.ts";
import { ApiError, type Asked } from "./api-errors.ts";

/** What the words of a connection error need, beside what was asked for. */
export interface Reach {
	readonly asked: Asked;
	/** True where the server's address is a Service's ClusterIP. */
	readonly isClusterIp: boolean;
	readonly connectMs: number;
}

const WAY_OUT =
	"this address is a Service that only a running service proxy makes reachable, so give the API server's own address with --master https://HOST:6443 or in a kubeconfig";

/** Node's and OpenSSL's names for "the certificate is not signed by that CA". */
const UNTRUSTED = new Set([
	"SELF_SIGNED_CERT_IN_CHAIN",
	"DEPTH_ZERO_SELF_SIGNED_CERT",
	"UNABLE_TO_VERIFY_LEAF_SIGNATURE",
	"UNABLE_TO_GET_ISSUER_CERT",
	"UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
	"CERT_SIGNATURE_FAILURE",
	"CERT_UNTRUSTED",
	"INVALID_CA",
]);

/** Turns what undici or Node throws into a message that says what to do. */
export function reachError(error: unknown, reach: Reach): ApiError {
	if (error instanceof ApiError) return error;
	const code = codeOf(error);
	const known = tlsError(code, error, reach) ?? pathError(code, error, reach);
	return known ?? brokenError(error, reach.asked);
}

/** For what happens once an answer has begun: keepalive's ETIMEDOUT is no failed connection attempt. */
export function brokenError(error: unknown, asked: Asked): ApiError {
	if (error instanceof ApiError) return error;
	const code = codeOf(error);
	const what = code === "" ? "" : ` (${code})`;
	const message = `The connection to the API server at ${asked.server} broke${what}`;
	return new ApiError("lost", message, { cause: error });
}

function tlsError(code: string, cause: unknown, { asked }: Reach): ApiError | undefined {
	const server = `the API server at ${asked.server}`;
	const make = (message: string) => new ApiError("tls", message, { cause });
	if (UNTRUSTED.has(code)) {
		return make(
			`Cannot trust ${server}: its certificate is not signed by the CA that we were given (${code}); check certificate-authority of ${asked.credentials}`,
		);
	}
	switch (code) {
		case "CERT_HAS_EXPIRED":
			return make(
				`Cannot trust ${server}: a certificate has expired; renew it, or check this node's clock`,
			);
		case "CERT_NOT_YET_VALID":
			return make(
				`Cannot trust ${server}: a certificate is not valid yet; check this node's clock`,
			);
		case "ERR_TLS_CERT_ALTNAME_INVALID":
			return make(
				`Cannot trust ${server}: its certificate is for other names and addresses; give a name that it has, or set tls-server-name in ${asked.credentials}`,
			);
		case "EPROTO":
		case "ERR_SSL_WRONG_VERSION_NUMBER":
		case "ERR_SSL_PACKET_LENGTH_TOO_LONG":
			return make(`Cannot speak TLS with ${server}: what answers there is not TLS (${code})`);
		default:
			if (code.startsWith("ERR_OSSL_") || code === "ERR_CRYPTO_OPERATION_FAILED") {
				return make(
					`Cannot use the certificates of ${asked.credentials}: not PEM, or certificate and key do not belong together (${code})`,
				);
			}
			if (!code.startsWith("ERR_SSL_") && !code.startsWith("ERR_TLS_")) return undefined;
			return make(`Cannot agree on TLS with ${server} (${code})`);
	}
}

function pathError(code: string, cause: unknown, reach: Reach): ApiError | undefined {
	const why = unreachableBecause(code, reach);
	if (why === undefined) return undefined;
	const { server } = reach.asked;
	const hint = reach.isClusterIp ? WAY_OUT : why.hint;
	const message = `Cannot reach the API server at ${server}: ${why.what}; ${hint}`;
	return new ApiError("unreachable", message, { cause });
}

function unreachableBecause(
	code: string,
	{ connectMs }: Reach,
): { readonly what: string; readonly hint: string } | undefined {
	const network = "check the network and firewalls between this node and it";
	switch (code) {
		case "ECONNREFUSED":
			return {
				what: "connection refused",
				hint: "check that it runs and that the address is right",
			};
		case "ENOTFOUND":
			return { what: "no such host name", hint: "check the address, or DNS on this node" };
		case "EAI_AGAIN":
			return { what: "its name cannot be looked up", hint: "check DNS on this node" };
		case "UND_ERR_CONNECT_TIMEOUT":
		case "ETIMEDOUT":
			return { what: `no answer within ${connectMs / 1_000} s`, hint: network };
		case "EHOSTUNREACH":
		case "ENETUNREACH":
		case "EADDRNOTAVAIL":
			return { what: `no route (${code})`, hint: network };
		case "UND_ERR_PRX_CONN":
		case "UND_ERR_PRX_TLS":
		case "UND_ERR_ABORTED":
			return {
				what: "the proxy of the kubeconfig does not let us through",
				hint: "check proxy-url",
			};
		default:
			return undefined;
	}
}

/** The code of an error or, where it has none that we know, of what is behind it. */
function codeOf(error: unknown): string {
	if (error instanceof AggregateError && error.errors.length > 0) return codeOf(error.errors[0]);
	const code = errorCode(error) ?? "";
	const cause = error instanceof Error ? error.cause : undefined;
	if ((code === "" || code === "UND_ERR_INFO") && cause !== undefined) return codeOf(cause);
	return code;
}

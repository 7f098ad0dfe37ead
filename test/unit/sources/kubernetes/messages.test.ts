import { describe, expect, test as it } from "vitest";
import { statusError } from "../../../../src/sources/kubernetes/api-errors.ts";
import { brokenError, reachError } from "../../../../src/sources/kubernetes/reach-errors.ts";
import { oneLine } from "../../../../src/sources/one-line.ts";

const asked = {
	server: "https://192.0.2.10:6443",
	verb: "list",
	plural: "services",
	group: "",
	path: "/api/v1/services",
	credentials: "kubeconfig /etc/kube.conf",
} as const;

function systemError(code: string): Error {
	return Object.assign(new Error(`x ${code}`), { code });
}

function reach(error: unknown, isClusterIp = false): string {
	return reachError(error, { asked, isClusterIp, connectMs: 10_000 }).message;
}

describe("messages", () => {
	it.each([
		["ECONNREFUSED", "unreachable", "connection refused; check that it runs"],
		["UND_ERR_CONNECT_TIMEOUT", "unreachable", "no answer within 10 s; check the network"],
		["EHOSTUNREACH", "unreachable", "no route (EHOSTUNREACH); check the network"],
		["ENOTFOUND", "unreachable", "no such host name"],
		["EAI_AGAIN", "unreachable", "its name cannot be looked up"],
		[
			"DEPTH_ZERO_SELF_SIGNED_CERT",
			"tls",
			"check certificate-authority of kubeconfig /etc/kube.conf",
		],
		["CERT_HAS_EXPIRED", "tls", "a certificate has expired"],
		["CERT_NOT_YET_VALID", "tls", "check this node's clock"],
		["ERR_TLS_CERT_ALTNAME_INVALID", "tls", "set tls-server-name"],
		["EPROTO", "tls", "what answers there is not TLS"],
		[
			"ERR_OSSL_PEM_NO_START_LINE",
			"tls",
			"Cannot use the certificates of kubeconfig /etc/kube.conf",
		],
		["ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED", "tls", "Cannot agree on TLS"],
		["ECONNRESET", "lost", "broke (ECONNRESET)"],
		["UND_ERR_SOCKET", "lost", "broke (UND_ERR_SOCKET)"],
	])("%s", (code, kind, text) => {
		const error = reachError(systemError(code), { asked, isClusterIp: false, connectMs: 10_000 });
		expect(error.code).toBe(kind);
		expect(error.message).toContain(text);
	});

	it("take a time-out in the middle of a body for a connection that broke", () => {
		const error = systemError("ETIMEDOUT");
		expect(brokenError(error, asked)).toMatchObject({ code: "lost" });
		expect(reach(error)).toContain("no answer within 10 s");
	});

	it("look behind errors that only wrap others", () => {
		const both = new AggregateError([systemError("ECONNREFUSED"), systemError("ENETUNREACH")]);
		expect(reach(both)).toContain("connection refused");
		expect(reach(new Error("outer", { cause: systemError("ECONNREFUSED") }))).toContain("refused");
		expect(reach("odd")).toContain("broke");
	});

	it("give the way out where the address is a Service", () => {
		expect(reach(systemError("UND_ERR_CONNECT_TIMEOUT"), true)).toBe(
			"Cannot reach the API server at https://192.0.2.10:6443: no answer within 10 s; this address is a Service that only a running service proxy makes reachable, so give the API server's own address with --master https://HOST:6443 or in a kubeconfig",
		);
	});

	it("quote a server's words in one line, cut", () => {
		const message = `line\nforged ${"x".repeat(500)}`;
		const error = statusError(asked, 500, { message }, undefined);
		expect(error.message).toMatch(
			/^The API server at \S+ answers "list" on "services" with status 500; it says: line forged x+…$/,
		);
		expect(error.message.length).toBeLessThan(350);
		expect(oneLine("a\u2028b\u202e\tc", 10)).toBe("a b c");
	});

	it("tell http from https", () => {
		const said = { message: "Client sent an HTTP request to an HTTPS server." };
		expect(statusError(asked, 400, said, undefined).message).toBe(
			"The API server at https://192.0.2.10:6443 speaks TLS: give its address with https://",
		);
	});
});

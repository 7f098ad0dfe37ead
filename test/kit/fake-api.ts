/**
 * The fake API server as a process, for tests that need it in another network namespace:
 *
 *     node test/kit/fake-api.ts --host 10.1.0.2 --port 6443 --control-port 6444 [--objects FILE]
 *
 * Prints `{"url":…,"control":…}` when it is ready. The control port takes commands as JSON over HTTP
 * (fake-api/control.ts); FILE holds a JSON list of objects to begin with. `--tls-folder DIR` serves
 * TLS and HTTP/2 with a fresh CA, whose certificate is written to DIR/ca.crt.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { flushCompileCache } from "node:module";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { CertificateAuthority } from "./fake-api/certificates.ts";
import { controlServer } from "./fake-api/control.ts";
import { startFakeApi } from "./fake-api/fake-api.ts";
import type { ApiObject } from "./fake-api/objects.ts";

const { values } = parseArgs({
	options: {
		host: { type: "string", default: "127.0.0.1" },
		port: { type: "string", default: "0" },
		"control-port": { type: "string", default: "0" },
		objects: { type: "string" },
		token: { type: "string" },
		"tls-folder": { type: "string" },
	},
});

function tlsFrom(folder: string, host: string) {
	const authority = new CertificateAuthority();
	writeFileSync(join(folder, "ca.crt"), authority.cert);
	return authority.issue({ commonName: "fake-api", names: [`IP:${host}`, "IP:127.0.0.1"] });
}

const { host, token } = values;
const folder = values["tls-folder"];
const api = await startFakeApi({
	host,
	port: Number(values.port),
	...(token === undefined ? {} : { token }),
	...(folder === undefined ? {} : { tls: tlsFrom(folder, host), http2: true }),
});
if (values.objects !== undefined) {
	// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a test's own file
	const objects = JSON.parse(readFileSync(values.objects, "utf8")) as readonly ApiObject[];
	for (const object of objects) api.put(object);
}
const control = controlServer(api);
control.listen(Number(values["control-port"]), host, () => {
	const address = control.address();
	const port = typeof address === "object" ? address?.port : 0;
	process.stdout.write(`${JSON.stringify({ url: api.url, control: `http://${host}:${port}` })}\n`);
	// Node itself would do so at the end, which is SIGKILL in a lab.
	flushCompileCache();
});

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test as it } from "vitest";
import { aPlugin, execUser } from "../../../kit/exec-plugins.ts";
import { apiService } from "../../../kit/fake-api/api-objects.ts";
import { CertificateAuthority } from "../../../kit/fake-api/certificates.ts";
import type { FakeApiOptions } from "../../../kit/fake-api/fake-api.ts";
import { aFolder, type KubeconfigParts, kubeconfigFor } from "../../../kit/kubeconfigs.ts";
import { type Running, runSource, serveApi, until } from "./source-kit.ts";

const authority = new CertificateAuthority();
const SECRET = "s3cret-t0ken-that-nobody-may-ever-read-in-a-log";

async function serveTls(options: FakeApiOptions = {}) {
	const api = await serveApi({
		tls: authority.issue({ commonName: "api", names: ["IP:127.0.0.1"] }),
		...options,
	});
	api.put(apiService("cart"));
	return api;
}

async function runWith(url: string, user: KubeconfigParts["user"], folder?: string) {
	const parts = { ca: authority.cert, ...(user === undefined ? {} : { user }) };
	const kubeconfig = kubeconfigFor(folder ?? (await aFolder()), url, parts);
	return runSource({ kubeconfig, master: undefined });
}

async function problemOf(running: Running): Promise<string> {
	await until("said", () => running.source.status().problem !== undefined);
	return running.source.status().problem ?? "";
}

describe("credentials", () => {
	it("a token of the kubeconfig is sent", async () => {
		const api = await serveTls({ token: SECRET });
		const running = await runWith(api.url, { token: SECRET });
		await until("synced", () => running.source.isSynced());
		expect(running.services()).toEqual(["shop/cart"]);
	});

	it("a token file is read relative to the kubeconfig, and again when the token is refused (case 3e)", async () => {
		const api = await serveTls({ token: "first" });
		const folder = await aFolder();
		writeFileSync(join(folder, "token"), "first\n");
		const running = await runWith(api.url, { tokenFile: "token" }, folder);
		await until("synced", () => running.source.isSynced());
		api.options = { ...api.options, token: "second" };
		api.cutWatches();
		expect(await problemOf(running)).toContain("does not accept our credentials (401)");
		writeFileSync(join(folder, "token"), "second\n");
		await until("well again", () => running.source.status().problem === undefined);
	});

	it("a service account of a pod is used in a cluster", async () => {
		const api = await serveTls({ token: SECRET });
		const folder = await aFolder();
		writeFileSync(join(folder, "token"), SECRET);
		writeFileSync(join(folder, "ca.crt"), authority.cert);
		const running = runSource(
			{ kubeconfig: undefined, master: undefined },
			{
				env: { KUBERNETES_SERVICE_HOST: "127.0.0.1", KUBERNETES_SERVICE_PORT: `${api.port}` },
				serviceAccountFolder: folder,
			},
		);
		await until("synced", () => running.source.isSynced());
		expect(running.source.name).toBe(`kubernetes ${api.url}`);
	});

	it("an exec plugin is called, told that nobody is there to answer, and called again on 401", async () => {
		const api = await serveTls({ token: "one" });
		const folder = await aFolder();
		writeFileSync(join(folder, "current"), "one");
		aPlugin(
			folder,
			`case "$KUBERNETES_EXEC_INFO" in *'"interactive":false'*) ;; *) exit 3;; esac
printf '{"kind":"ExecCredential","status":{"token":"%s"}}' "$(cat ${folder}/current)"`,
		);
		const running = await runWith(api.url, execUser("./plugin"), folder);
		await until("synced", () => running.source.isSynced());
		api.options = { ...api.options, token: "two" };
		writeFileSync(join(folder, "current"), "two");
		api.cutWatches();
		api.put(apiService("late"));
		await until("followed", () => running.services().includes("shop/late"));
		expect(api.requests.at(-1)?.headers.authorization).toBe("Bearer two");
	});

	it("user and password are sent", async () => {
		const api = await serveTls();
		const running = await runWith(api.url, { username: "u", password: "p" });
		await until("synced", () => running.source.isSynced());
		const basic = `Basic ${Buffer.from("u:p").toString("base64")}`;
		expect(api.requests.at(-1)?.headers.authorization).toBe(basic);
	});

	it("a client certificate is presented", async () => {
		const api = await serveTls({ clientCa: authority.cert });
		const { cert, key } = authority.issue({ commonName: "system:kube-proxy" });
		const running = await runWith(api.url, {
			"client-certificate-data": Buffer.from(cert).toString("base64"),
			"client-key-data": Buffer.from(key).toString("base64"),
		});
		await until("synced", () => running.source.isSynced());
		const without = await runWith(api.url, {});
		expect(await problemOf(without)).toMatch(/Cannot agree on TLS|broke/);
	});

	it("--master takes the place of the kubeconfig's server and keeps its credentials", async () => {
		const api = await serveTls({ token: SECRET });
		const kubeconfig = kubeconfigFor(await aFolder(), "https://192.0.2.1:6443", {
			ca: authority.cert,
			user: { token: SECRET },
		});
		const running = runSource({ kubeconfig, master: api.url });
		await until("synced", () => running.source.isSynced());
		expect(running.source.name).toBe(`kubernetes ${api.url}`);
	});

	it("are sent in clear text only with a warning", async () => {
		const api = await serveApi({ token: SECRET });
		const kubeconfig = kubeconfigFor(await aFolder(), api.url, { user: { token: SECRET } });
		const running = runSource({ kubeconfig, master: undefined });
		await until("synced", () => running.source.isSynced());
		const warnings = running.log.lines.filter(({ level }) => level === "warn");
		expect(warnings.map(({ message }) => message)).toContain(
			"credentials go to the API server in clear text",
		);
	});

	it("never come into a log or the status", async () => {
		const api = await serveTls({ token: "another" });
		const folder = await aFolder();
		aPlugin(folder, `printf 'no JSON but ${SECRET}'`);
		const running = [
			await runWith(api.url, { token: SECRET }),
			await runWith(api.url, { username: "u", password: SECRET }),
			await runWith(api.url, execUser(join(folder, "plugin"))),
			await runWith(api.url, execUser(aPlugin(await aFolder(), `echo ${SECRET} >&2; exit 1`))),
			runSource({ kubeconfig: undefined, master: `http://u:${SECRET}@127.0.0.1:1` }),
		];
		const bad = await aFolder();
		const path = join(bad, "kubeconfig");
		writeFileSync(path, `users:\n- user:\n    token: "${SECRET}\n  x: [${SECRET}`);
		running.push(runSource({ kubeconfig: path, master: undefined }));
		for (const one of running) {
			// oxlint-disable-next-line no-await-in-loop -- one after the other
			await problemOf(one);
		}
		const told = JSON.stringify(
			running.map(({ source, log }) => [source.name, source.status(), log.lines]),
		);
		expect(told).not.toContain(SECRET);
	});
});

describe("credentials that cannot be used are said with what to do, and tried again", () => {
	it.each<[string, string | undefined, RegExp]>([
		["no file", undefined, /^Cannot read kubeconfig \/.*\/kubeconfig: no such file$/],
		["an empty file", "", /^Cannot use kubeconfig \/.*: it is empty$/],
		["no YAML", "a: [\nb: }", /: it is not YAML at line \d+ \([A-Z_]+\)$/],
		["a list", "[]", /: it is not a kubeconfig$/],
		["no context", "{}", /: it has no current-context$/],
		[
			"a lost context",
			"current-context: x",
			/: its current context names context "x", which it lacks$/,
		],
		[
			"a lost cluster",
			"{current-context: x, contexts: [{name: x, context: {cluster: c}}]}",
			/: its current context names cluster "c", which it lacks$/,
		],
		[
			"no server",
			"{current-context: x, contexts: [{name: x, context: {cluster: c}}], clusters: [{name: c, cluster: {}}]}",
			/: cluster "c" has no server$/,
		],
		[
			"a lost user",
			"{current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}], clusters: [{name: c, cluster: {server: 'https://a'}}]}",
			/: its current context names user "u", which it lacks$/,
		],
		[
			"a server that is no address",
			"{current-context: x, contexts: [{name: x, context: {cluster: c}}], clusters: [{name: c, cluster: {server: 'a:b'}}]}",
			/wanted https:\/\/HOST:PORT$/,
		],
	])("kubeconfig: %s", async (_what, text, message) => {
		const folder = await aFolder();
		const kubeconfig = join(folder, "kubeconfig");
		if (text !== undefined) writeFileSync(kubeconfig, text);
		const running = runSource({ kubeconfig, master: undefined });
		expect(await problemOf(running)).toMatch(message);
		expect(running.log.lines.find(({ level }) => level === "error")?.message).toBe(
			"cluster source failing",
		);
		const api = await serveApi();
		kubeconfigFor(folder, api.url);
		await until("synced", () => running.source.isSynced());
	});

	it("a folder in the place of the kubeconfig", async () => {
		const folder = await aFolder();
		mkdirSync(join(folder, "kubeconfig"));
		const running = runSource({ kubeconfig: join(folder, "kubeconfig"), master: undefined });
		expect(await problemOf(running)).toMatch(/: it is a folder$/);
	});

	it("a CA file that is not there", async () => {
		const kubeconfig = kubeconfigFor(await aFolder(), "https://127.0.0.1:1", {
			cluster: { "certificate-authority": "ca.crt" },
		});
		const running = runSource({ kubeconfig, master: undefined });
		expect(await problemOf(running)).toMatch(
			/^Cannot use the credentials of kubeconfig .*: \/.*\/ca.crt: no such file$/,
		);
	});

	it("a plugin that is not there, fails, or prints something else", async () => {
		const missing = await runWith("https://127.0.0.1:1", execUser("/nowhere/plugin"));
		expect(await problemOf(missing)).toContain(
			"the exec plugin /nowhere/plugin cannot be started (ENOENT)",
		);
		const failing = aPlugin(await aFolder(), "echo 'please log in' >&2; exit 1");
		expect(await problemOf(await runWith("https://127.0.0.1:1", execUser(failing)))).toContain(
			"please log in",
		);
		const chatty = aPlugin(await aFolder(), "echo '{}'");
		expect(await problemOf(await runWith("https://127.0.0.1:1", execUser(chatty)))).toContain(
			"printed no ExecCredential with a status",
		);
	});

	it("no credentials at all outside a cluster", async () => {
		const running = runSource({ kubeconfig: undefined, master: undefined });
		expect(await problemOf(running)).toContain(
			"KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set; give --kubeconfig, --master or --manifests",
		);
	});
});

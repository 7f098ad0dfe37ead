import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test as it } from "vitest";
import { aHangingPlugin, aPlugin, execUser, isAlive } from "../../../kit/exec-plugins.ts";
import { apiService } from "../../../kit/fake-api/api-objects.ts";
import { CertificateAuthority } from "../../../kit/fake-api/certificates.ts";
import type { FakeApi, FakeApiOptions } from "../../../kit/fake-api/fake-api.ts";
import { aFolder, type KubeconfigParts, kubeconfigFor } from "../../../kit/kubeconfigs.ts";
import { type Running, runSource, serveApi, until } from "./source-kit.ts";

const authority = new CertificateAuthority();
const SECRET = "s3cret-t0ken-that-nobody-may-ever-read-in-a-log";
const NOWHERE = "https://127.0.0.1:1";
const WAITING = "waiting for the exec credential plugin";

async function serveTls(options: FakeApiOptions = {}): Promise<FakeApi> {
	const tls = authority.issue({ commonName: "api", names: ["IP:127.0.0.1"] });
	const api = await serveApi({ tls, ...options });
	api.put(apiService("cart"));
	return api;
}

function runWith(
	url: string,
	folder: string,
	user: KubeconfigParts["user"],
	pluginLimits: { readonly noticeMs?: number; readonly killMs?: number } = {},
): Running {
	const parts = { ca: authority.cert, ...(user === undefined ? {} : { user }) };
	const kubeconfig = kubeconfigFor(folder, url, parts);
	return runSource({ kubeconfig, master: undefined }, { pluginLimits });
}

async function problemOf(running: Running): Promise<string> {
	await until("said", () => running.source.status().problem !== undefined);
	return running.source.status().problem ?? "";
}

function printing(status: object): string {
	return `cat <<'END'\n${JSON.stringify({ kind: "ExecCredential", status })}\nEND`;
}

function lines(running: Running, message: string) {
	return running.log.lines.filter((line) => line.message === message);
}

describe("an exec plugin that hangs", () => {
	it("is killed with its children when the source ends, at once", async () => {
		const folder = await aFolder();
		const plugin = aHangingPlugin(folder);
		const running = runWith(NOWHERE, folder, execUser(plugin.path));
		await until("it hangs", () => plugin.pids().length === 2);
		const pids = plugin.pids();
		running.abort.abort();
		await running.source.closed();
		await until("nobody is left", () => !pids.some(isAlive));
		expect(running.source.status().problem).toBeUndefined();
	});

	it("is told of early and once, by its command alone", async () => {
		const folder = await aFolder();
		const { path } = aHangingPlugin(folder);
		const user = execUser(path, { args: [SECRET], env: [{ name: "KEY", value: SECRET }] });
		const running = runWith(NOWHERE, folder, user, { noticeMs: 50, killMs: 150 });
		await until("tried again", () => lines(running, "request failed").length >= 9);
		const said = lines(running, WAITING);
		expect(said).toMatchObject([{ level: "warn", fields: { plugin: path, killedAfterMs: 150 } }]);
		expect(JSON.stringify(running.log.lines)).not.toContain(SECRET);
	});

	it("is killed with its children after its time, said, and started again", async () => {
		const folder = await aFolder();
		const plugin = aHangingPlugin(folder);
		const running = runWith(NOWHERE, folder, execUser(plugin.path), { killMs: 500 });
		await until("it hangs", () => plugin.pids().length === 2);
		const pids = plugin.pids();
		expect(await problemOf(running)).toBe(
			`Cannot use the credentials of kubeconfig ${join(folder, "kubeconfig")}: the exec plugin ${plugin.path} did not come to an end within 0.5 s and was killed`,
		);
		await until("nobody is left", () => !pids.some(isAlive));
		await until("another one", () => plugin.pids()[0] !== pids[0]);
	});

	it("and answers late is started once for all that wait, and its answer is told", async () => {
		const api = await serveTls({ token: SECRET });
		const folder = await aFolder();
		const starts = join(folder, "starts");
		const script = `echo started >> ${starts}; sleep 0.5; ${printing({ token: SECRET })}`;
		const user = execUser(aPlugin(folder, script));
		const running = runWith(api.url, folder, user, { noticeMs: 50 });
		await until("synced", () => running.source.isSynced());
		expect(readFileSync(starts, "utf8")).toBe("started\n");
		expect(lines(running, "exec credential plugin answered")).toHaveLength(1);
		expect(running.source.status().problem).toBeUndefined();
	});
});

describe("an exec plugin", () => {
	it("gets its arguments and variables, and nothing to read", async () => {
		const api = await serveTls({ token: "a-b-c-" });
		const folder = await aFolder();
		const script = `read line; printf '{"status":{"token":"%s-%s-%s-%s"}}' "$1" "$2" "$THIRD" "$line"`;
		const user = execUser(aPlugin(folder, script), {
			args: ["a", "b"],
			env: [{ name: "THIRD", value: "c" }],
		});
		const running = runWith(api.url, folder, user);
		await until("synced", () => running.source.isSynced());
		expect(running.services()).toEqual(["shop/cart"]);
	});

	it("may leave a child behind that holds its output open", async () => {
		const api = await serveTls({ token: SECRET });
		const folder = await aFolder();
		const script = `sleep 20 & echo $! > ${folder}/child; ${printing({ token: SECRET })}`;
		const running = runWith(api.url, folder, execUser(aPlugin(folder, script)));
		await until("synced", () => running.source.isSynced());
		const child = Number(readFileSync(join(folder, "child"), "utf8"));
		expect(isAlive(child)).toBe(true);
		process.kill(child);
	});

	it("may give a client certificate", async () => {
		const api = await serveTls({ clientCa: authority.cert });
		const folder = await aFolder();
		const { cert, key } = authority.issue({ commonName: "system:kube-proxy" });
		const status = { clientCertificateData: cert, clientKeyData: key };
		const running = runWith(api.url, folder, execUser(aPlugin(folder, printing(status))));
		await until("synced", () => running.source.isSynced());
		expect(running.services()).toEqual(["shop/cart"]);
	});

	it.each([
		["again for each connection", "2020-01-01T00:00:00Z", (starts: number) => starts > 1],
		["again, where its time cannot be read", "soon", (starts: number) => starts > 1],
		[
			"once, while its credential is good",
			"2999-01-01T00:00:00Z",
			(starts: number) => starts === 1,
		],
	])("is asked %s", async (_how, expirationTimestamp, isRight) => {
		const api = await serveTls({ token: SECRET });
		const folder = await aFolder();
		const starts = join(folder, "starts");
		const script = `echo started >> ${starts}; ${printing({ token: SECRET, expirationTimestamp })}`;
		const running = runWith(api.url, folder, execUser(aPlugin(folder, script)));
		await until("synced", () => running.source.isSynced());
		api.endWatches();
		await until("watching again", () => api.requests.length > 6);
		expect(readFileSync(starts, "utf8").split("\n").length - 1).toSatisfy(isRight);
	});

	it("is found where client-node alone looks for one", async () => {
		const api = await serveTls({ token: SECRET });
		const folder = await aFolder();
		const { exec } = execUser(aPlugin(folder, printing({ token: SECRET })));
		const user = { "auth-provider": { name: "exec", config: { exec } } };
		const running = runWith(api.url, folder, user);
		await until("synced", () => running.source.isSynced());
		expect(running.services()).toEqual(["shop/cart"]);
	});

	it.each<[string, string, RegExp]>([
		["prints no credential", printing({}), /printed neither a token nor a certificate$/],
		["prints half of one", printing({ clientKeyData: "k" }), /only one of certificate and key$/],
		["prints no JSON", `echo ${SECRET}`, /did not print JSON$/],
		["prints without end", "yes", /printed too much and was killed$/],
		["says why it fails", "echo 'log in' >&2; exit 3", /failed with status 3: log in$/],
		["says nothing", "exit 4", /failed with status 4$/],
		["is killed", "kill -9 $$", /was killed$/],
	])("that %s is refused with its name", async (_what, script, message) => {
		const folder = await aFolder();
		const path = aPlugin(folder, script);
		const problem = await problemOf(runWith(NOWHERE, folder, execUser(path)));
		expect(problem).toContain(`: the exec plugin ${path} `);
		expect(problem).toMatch(message);
	});

	it("that is missing is named with what its kubeconfig says of it", async () => {
		const user = execUser("/nowhere/plugin", { installHint: "apt install\nplugin" });
		expect(await problemOf(runWith(NOWHERE, await aFolder(), user))).toMatch(
			/the exec plugin \/nowhere\/plugin cannot be started \(ENOENT\); its kubeconfig says: apt install plugin$/,
		);
	});

	it.each<[string, Readonly<Record<string, unknown>>, RegExp]>([
		["no command", { command: "" }, /: its exec plugin has no command$/],
		[
			"a person at its side",
			{ interactiveMode: "Always" },
			/exec plugin p wants a person to talk to/,
		],
		["odd arguments", { args: ["a", {}] }, /: args of its exec plugin is not a list of texts$/],
	])("with %s is refused before it is run", async (_what, more, message) => {
		const running = runWith(NOWHERE, await aFolder(), execUser("p", more));
		expect(await problemOf(running)).toMatch(message);
	});

	it("that the kubeconfig has in place of another one is asked from then on", async () => {
		const api = await serveTls({ token: "one" });
		const folder = await aFolder();
		const other = await aFolder();
		const running = runWith(api.url, folder, execUser(aPlugin(folder, printing({ token: "one" }))));
		await until("synced", () => running.source.isSynced());
		const user = execUser(aPlugin(other, printing({ token: "two" })));
		kubeconfigFor(folder, api.url, { ca: authority.cert, user });
		writeFileSync(join(folder, "plugin"), "");
		api.options = { ...api.options, token: "two" };
		api.cutWatches();
		api.put(apiService("late"));
		await until("followed", () => running.services().includes("shop/late"));
		expect(api.requests.at(-1)?.headers.authorization).toBe("Bearer two");
	});
});

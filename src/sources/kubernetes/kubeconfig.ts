import { readFile } from "node:fs/promises";
import { dirname, isAbsolute, join } from "node:path";
import { LineCounter, parseDocument } from "yaml";
import { errorCode } from "../../shared/errors.ts";
import { oneLine } from "../one-line.ts";
import { ApiError } from "./api-errors.ts";
import { badKubeconfig } from "./bad-kubeconfig.ts";
import { type ExecPluginConfig, toExecPluginConfig } from "./exec-plugin-config.ts";
import { isRecord, type UnknownRecord } from "./records.ts";

/** A kubeconfig is a few kilobytes; a file beyond this is something else. */
const MAX_BYTES = 4 * 1024 * 1024;

/** A kubeconfig whose current context is complete, in the shape that client-node reads. */
export interface Kubeconfig {
	/** The file's text, to see that it changed. */
	readonly text: string;
	/** As JSON, with what client-node would not understand put right. */
	readonly json: string;
	/** The folder that relative paths start from. */
	readonly folder: string;
	/** Undefined where the current context's user has none; `json` has none either way. */
	readonly plugin: ExecPluginConfig | undefined;
}

/**
 * Reads a kubeconfig and checks that its current context leads to a cluster.
 *
 * client-node's own reader takes an empty file without a word, does not know `tokenFile` (which is
 * what kubeadm's kube-proxy uses), reads relative token files from the working folder, and quotes the
 * file's content in some of its errors.
 *
 * @throws {ApiError} "credentials": names the file and what is wrong, never its content.
 */
export async function readKubeconfig(path: string): Promise<Kubeconfig> {
	const text = await readText(path);
	const root = parseYaml(path, text);
	const context = entryOf(path, root, "contexts", "context", root["current-context"]);
	const cluster = entryOf(path, root, "clusters", "cluster", context["cluster"]);
	if (typeof cluster["server"] !== "string") {
		throw badKubeconfig(path, `cluster "${nameOf(context["cluster"])}" has no server`);
	}
	const hasUser = context["user"] !== undefined && context["user"] !== "";
	const user = hasUser ? entryOf(path, root, "users", "user", context["user"]) : {};
	const folder = dirname(path);
	const exec = execOf(user);
	const plugin = exec === undefined ? undefined : toExecPluginConfig(exec, path, folder);
	const users = listOf(root["users"]).map((entry) => toClientNodeUser(entry, folder));
	return { text, json: JSON.stringify({ ...root, users }), folder, plugin };
}

async function readText(path: string): Promise<string> {
	let bytes: Buffer;
	try {
		bytes = await readFile(path);
	} catch (error) {
		throw new ApiError("credentials", `Cannot read kubeconfig ${path}: ${whyUnreadable(error)}`, {
			cause: error,
		});
	}
	if (bytes.length > MAX_BYTES) throw badKubeconfig(path, `it has more than ${MAX_BYTES} bytes`);
	return bytes.toString("utf8");
}

/** What to do about a file that cannot be read, in a person's words. */
export function whyUnreadable(error: unknown): string {
	const code = errorCode(error) ?? "it cannot be read";
	switch (code) {
		case "ENOENT":
			return "no such file";
		case "EACCES":
		case "EPERM":
			return "permission denied";
		case "EISDIR":
			return "it is a folder";
		default:
			return code;
	}
}

function parseYaml(path: string, text: string): UnknownRecord {
	const lineCounter = new LineCounter();
	// Pretty errors would quote the line, and a kubeconfig's lines are secrets.
	const document = parseDocument(text, { prettyErrors: false, lineCounter, logLevel: "silent" });
	const [error] = document.errors;
	if (error !== undefined) {
		const { line } = lineCounter.linePos(error.pos[0]);
		throw badKubeconfig(path, `it is not YAML at line ${line} (${error.code})`);
	}
	let root: unknown;
	try {
		root = document.toJS({ maxAliasCount: 100 });
	} catch {
		throw badKubeconfig(path, "its aliases cannot be resolved");
	}
	if (root === null || root === undefined) throw badKubeconfig(path, "it is empty");
	if (!isRecord(root)) throw badKubeconfig(path, "it is not a kubeconfig");
	return root;
}

function entryOf(
	path: string,
	root: UnknownRecord,
	list: "contexts" | "clusters" | "users",
	field: "context" | "cluster" | "user",
	name: unknown,
): UnknownRecord {
	if (typeof name !== "string" || name === "") {
		const missing = field === "context" ? "current-context" : `${field} in its current context`;
		throw badKubeconfig(path, `it has no ${missing}`);
	}
	const entry = listOf(root[list]).find((candidate) => candidate["name"] === name);
	const value = entry?.[field];
	if (!isRecord(value)) {
		throw badKubeconfig(
			path,
			`its current context names ${field} "${nameOf(name)}", which it lacks`,
		);
	}
	return value;
}

/** Without an exec plugin, which client-node is not to run, and with what it does not know put right. */
function toClientNodeUser(entry: UnknownRecord, folder: string): UnknownRecord {
	const { exec: _exec, ...user } = isRecord(entry["user"]) ? entry["user"] : {};
	if (execOf(entry["user"]) !== undefined) {
		// Of several ways, client-node takes the plugin too.
		const { "auth-provider": _provider, ...rest } = user;
		return { ...entry, user: rest };
	}
	const file = user["tokenFile"] ?? user["token-file"];
	const { token: _token, tokenFile: _file, "token-file": _alias, ...rest } = user;
	if (typeof file === "string" && file !== "") {
		// As in client-go, the file wins over a token beside it.
		const config = { tokenFile: isAbsolute(file) ? file : join(folder, file) };
		return { ...entry, user: { ...rest, "auth-provider": { name: "tokenFile", config } } };
	}
	return { ...entry, user };
}

/** A user's exec plugin, also in the place where only client-node looks for it. */
function execOf(user: unknown): UnknownRecord | undefined {
	if (!isRecord(user)) return undefined;
	const provider = isRecord(user["auth-provider"]) ? user["auth-provider"] : {};
	const config = isRecord(provider["config"]) ? provider["config"] : {};
	const exec = user["exec"] ?? config["exec"];
	return isRecord(exec) ? exec : undefined;
}

function listOf(value: unknown): readonly UnknownRecord[] {
	return Array.isArray(value) ? value.filter(isRecord) : [];
}

function nameOf(value: unknown): string {
	return typeof value === "string" ? oneLine(value, 100) : "";
}

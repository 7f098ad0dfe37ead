import { isAbsolute, join } from "node:path";
import { oneLine } from "../one-line.ts";
import { badKubeconfig } from "./bad-kubeconfig.ts";
import { isRecord, type UnknownRecord } from "./records.ts";

/** A kubeconfig's exec plugin, as it is to be run. Holds secrets: never to be logged, but for the command. */
export interface ExecPluginConfig {
	/** A path, or a name that is looked up in PATH. */
	readonly command: string;
	readonly args: readonly string[];
	/** What comes on top of the daemon's environment. */
	readonly env: Readonly<Record<string, string>>;
	/** What the kubeconfig says to do where the command is missing; "" where it says nothing. */
	readonly installHint: string;
}

/**
 * Narrows a user's `exec`, by client-go's rules where client-node has none: a relative command with a
 * folder starts from the kubeconfig, and a plugin that must talk to a person is refused.
 *
 * @param path of the kubeconfig, for messages.
 * @throws {ApiError} "credentials"
 */
export function toExecPluginConfig(
	exec: UnknownRecord,
	path: string,
	folder: string,
): ExecPluginConfig {
	const { command, interactiveMode, installHint } = exec;
	if (typeof command !== "string" || command === "") {
		throw badKubeconfig(path, "its exec plugin has no command");
	}
	if (interactiveMode === "Always") {
		const why = "wants a person to talk to (interactiveMode: Always), and a daemon has none";
		throw badKubeconfig(path, `its exec plugin ${oneLine(command, 200)} ${why}`);
	}
	const isRelative = command.includes("/") && !isAbsolute(command);
	return {
		command: isRelative ? join(folder, command) : command,
		args: argsOf(exec, path),
		env: { KUBERNETES_EXEC_INFO: JSON.stringify(infoFor(exec)), ...envOf(exec) },
		installHint: typeof installHint === "string" ? oneLine(installHint, 300) : "",
	};
}

/** How the plugin is told how it is called. */
function infoFor(exec: UnknownRecord): unknown {
	return {
		apiVersion: exec["apiVersion"] ?? "client.authentication.k8s.io/v1",
		kind: "ExecCredential",
		spec: { interactive: false },
	};
}

function argsOf(exec: UnknownRecord, path: string): readonly string[] {
	const args: unknown = exec["args"] ?? [];
	if (Array.isArray(args) && args.every((arg) => typeof arg === "string")) return args;
	throw badKubeconfig(path, "args of its exec plugin is not a list of texts");
}

function envOf(exec: UnknownRecord): Record<string, string> {
	const listed: readonly unknown[] = Array.isArray(exec["env"]) ? exec["env"] : [];
	const pairs = listed.filter(isRecord).map(({ name, value }) => [name, value] as const);
	const named = pairs.filter(([name]) => typeof name === "string" && name !== "");
	return Object.fromEntries(named.map(([name, value]) => [String(name), textOf(value)]));
}

/** YAML makes numbers and booleans of texts that look so. */
function textOf(value: unknown): string {
	if (typeof value === "number" || typeof value === "boolean") return String(value);
	return typeof value === "string" ? value : "";
}

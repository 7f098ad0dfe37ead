import { closeSync, constants, fstatSync, openSync, readFileSync } from "node:fs";
import { describeError } from "../shared/errors.ts";
import { type ConfigInputs, type ConfigResult, type FlagTexts, resolveConfig } from "./resolve.ts";
import { path as parsePath } from "./values.ts";

/** kubeadm's file has 2 kB; what is larger is no configuration. */
const MAX_FILE_BYTES = 262_144;

/**
 * Reads the file that --config names, and resolves everything. Synchronous: there is nothing else to
 * do meanwhile at the start, and a reload must not mix with the next one.
 *
 * @returns problems, never throws, for a file that cannot be read.
 */
export function loadConfig(inputs: {
	readonly flags: FlagTexts;
	readonly env: ConfigInputs["env"];
	readonly hostname: string;
}): ConfigResult {
	const parsed = parsePath(inputs.flags.config?.at(-1) ?? "");
	const path = "value" in parsed ? parsed.value : undefined;
	if (path === undefined) return resolveConfig({ ...inputs, file: undefined });
	const text = readBounded(path);
	if (typeof text === "string") return resolveConfig({ ...inputs, file: { path, text } });
	const unreadable = { where: "--config", message: text.problem };
	// What else is wrong is said as well, except what the file may have been meant to give.
	const others = resolveConfig({ ...inputs, file: undefined });
	const rest =
		"problems" in others ? others.problems.filter(({ where }) => where.startsWith("-")) : [];
	return { problems: [unreadable, ...rest] };
}

function readBounded(path: string): string | { readonly problem: string } {
	let descriptor: number | undefined;
	try {
		// Not blocking: opening a pipe would wait for its writer.
		descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
		const stats = fstatSync(descriptor);
		if (!stats.isFile()) return { problem: `cannot read ${path}: it is no regular file` };
		if (stats.size > MAX_FILE_BYTES) {
			return { problem: `cannot read ${path}: larger than ${MAX_FILE_BYTES} bytes` };
		}
		return readFileSync(descriptor, "utf8");
	} catch (error) {
		return { problem: `cannot read ${path}: ${describeError(error)}` };
	} finally {
		if (descriptor !== undefined) closeSync(descriptor);
	}
}

import type { IpFamily } from "../services/address.ts";
import { UserProxyError } from "../shared/errors.ts";
import type { TableName } from "./chains.ts";
import { CommandError } from "./command-error.ts";
import type { CommandRunner } from "./command-runner.ts";
import { type SavedRules, SavedRulesReader } from "./saved-rules.ts";

/** The two kernel interfaces that iptables comes for; rules made through one are not seen by the other. */
export type Variant = "nft" | "legacy";

/** The programs of one family in one variant. */
export interface XtablesTools {
	readonly family: IpFamily;
	readonly variant: Variant;
	/** "1.8.9". */
	readonly version: string;
	/** "ip6tables-nft-save". */
	readonly save: string;
	readonly restore: string;
}

/** "ip6tables-legacy": the program of one family that is surely of that variant. */
export function programOf({ family, variant }: Pick<XtablesTools, "family" | "variant">): string {
	return `${family === "ipv4" ? "iptables" : "ip6tables"}-${variant}`;
}

/** Reading 200,000 rules takes some seconds; longer than this means hung. */
const SAVE_TIMEOUT_MS = 30_000;

/** Seconds that a restore waits for the xtables lock, as kube-proxy does. */
const LOCK_WAIT_S = 5;
const RESTORE_TIMEOUT_MS = 30_000 + LOCK_WAIT_S * 1_000;

/** iptables-restore refused its input. The table that the line is in holds what it held before. */
export class RulesRefusedError extends UserProxyError {
	readonly code = "RULES_REFUSED";
	readonly retriable = true;
	/** The line of the input that was refused, or undefined where the program did not tell. */
	readonly line: string | undefined;

	constructor(cause: CommandError, line: string | undefined) {
		const at = line === undefined ? "" : ` at line "${line}"`;
		super(`Cannot apply packet rules: ${cause.file} refused them${at}: ${cause.stderr}`, { cause });
		this.line = line;
	}
}

/** Reading a listing that leaves rules out would make us add our jumps again and again. */
class TablesUnreadableError extends UserProxyError {
	readonly code = "TABLES_UNREADABLE";
	readonly retriable = false;

	constructor(family: IpFamily, tables: readonly TableName[]) {
		super(
			`Cannot apply packet rules for ${family}: table ${tables.join(" and ")} holds native nftables ` +
				"rules that iptables cannot show; move them to a table of another name",
		);
	}
}

/**
 * Reads what the kernel holds, as far as it concerns us.
 *
 * @throws {CommandError} if the rules cannot be listed.
 * @throws {TablesUnreadableError} if iptables cannot show all of our tables.
 */
export async function readSavedRules(
	runner: CommandRunner,
	tools: XtablesTools,
	signal: AbortSignal,
): Promise<SavedRules> {
	const reader = new SavedRulesReader();
	await listRules(runner, tools, reader.line, signal);
	const saved = reader.result();
	if (saved.unreadable.length > 0) throw new TablesUnreadableError(tools.family, saved.unreadable);
	return saved;
}

/**
 * Hands over every line of what iptables-save prints, all tables.
 *
 * @throws {CommandError} if the rules cannot be listed.
 */
export async function listRules(
	runner: CommandRunner,
	{ save }: XtablesTools,
	onLine: (line: string) => void,
	signal: AbortSignal,
): Promise<void> {
	await runner.run(save, [], { signal, timeoutMs: SAVE_TIMEOUT_MS, onLine });
}

/**
 * Gives text to iptables-restore, which commits it table by table; an empty text does nothing.
 *
 * @throws {RulesRefusedError} if a line was refused; tables before that line are committed.
 * @throws {CommandError} if the program could not do its work; any number of tables is committed.
 */
export async function restoreRules(
	runner: CommandRunner,
	{ restore }: XtablesTools,
	text: string,
	signal: AbortSignal,
): Promise<void> {
	if (text === "") return;
	try {
		await runner.run(restore, ["--noflush", "--wait", String(LOCK_WAIT_S)], {
			input: text,
			signal,
			timeoutMs: RESTORE_TIMEOUT_MS,
		});
	} catch (error) {
		throw error instanceof CommandError && error.code === "COMMAND_FAILED"
			? new RulesRefusedError(error, refusedLine(error.stderr, text))
			: error;
	}
}

function refusedLine(stderr: string, text: string): string | undefined {
	const number = /\bline:? (\d+)/.exec(stderr)?.[1];
	return number === undefined ? undefined : text.split("\n")[Number(number) - 1];
}

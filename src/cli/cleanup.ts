import { showControlCharacters } from "../observe/control-characters.ts";
import type { CleanupReport } from "../rules/cleanup.ts";
import type { KubeProxyCleanupReport } from "../rules/cleanup-kube-proxy.ts";
import { isCommandError } from "../rules/command-error.ts";
import { programOf } from "../rules/xtables.ts";
import { describeError } from "../shared/errors.ts";
import { EXIT_FAILED, EXIT_FINE } from "./exit-codes.ts";
import type { Host } from "./host.ts";
import { complain } from "./report.ts";

/** Longer than every command's own limit; stands against a host that hangs. */
const TIMEOUT_MS = 120_000;

/** `cleanup`: removes every rule and chain of ours. A second time finds nothing and is fine. */
export async function cleanupCommand(host: Host): Promise<number> {
	const pid = await host.doors.runningDaemon();
	let report: CleanupReport;
	try {
		report = await host.doors.cleanup(AbortSignal.timeout(TIMEOUT_MS));
	} catch (error) {
		complain(host, failureText(error));
		return EXIT_FAILED;
	}
	for (const place of report.cleaned) {
		host.out(`Removed the chains and jumps of ${programOf(place)} (nat and filter tables)\n`);
	}
	if (report.cleaned.length === 0 && report.problems.length === 0) {
		host.out("Nothing to remove: no rule or chain of kube-userproxy is there\n");
	}
	for (const problem of report.problems) complain(host, `cleanup: ${problem}`);
	if (pid !== undefined) {
		complain(
			host,
			`cleanup: warning: a kube-userproxy (pid ${pid}) runs on this node and puts its rules back within seconds; a daemon that stops removes its own`,
		);
	}
	return report.problems.length === 0 ? EXIT_FINE : EXIT_FAILED;
}

/**
 * `cleanup --kube-proxy`: removes what a kube-proxy in another mode left, and nothing of ours. Fails
 * while something of it is still there.
 */
export async function cleanupKubeProxyCommand(host: Host): Promise<number> {
	let report: KubeProxyCleanupReport;
	try {
		report = await host.doors.cleanupKubeProxy(AbortSignal.timeout(TIMEOUT_MS));
	} catch (error) {
		complain(host, failureText(error));
		return EXIT_FAILED;
	}
	const tell = (text: string): void => host.out(`${showControlCharacters(text)}\n`);
	const removed = removedTexts(report);
	for (const text of removed) tell(`Removed ${text}`);
	for (const text of report.kept) tell(`Kept, ${text}`);
	for (const { what, command } of report.left) tell(`Left: ${what}; to remove: ${command}`);
	for (const text of report.unseen) tell(`Not looked for: ${text}`);
	if (removed.length > 0) tell("A kube-proxy that still runs puts all of it back: stop it first");
	const isClean = report.left.length === 0 && report.problems.length === 0;
	if (removed.length === 0 && isClean) tell("Nothing to remove: no rule of kube-proxy is there");
	for (const problem of report.problems) complain(host, `cleanup: ${problem}`);
	return isClean ? EXIT_FINE : EXIT_FAILED;
}

function removedTexts({ cleaned, nftTables }: KubeProxyCleanupReport): readonly string[] {
	return [
		...cleaned
			.filter(({ chains, jumps }) => chains + jumps > 0)
			.map(
				({ program, chains, jumps }) =>
					`kube-proxy's chains (${chains}) and jumps (${jumps}) of ${program}`,
			),
		...nftTables.map((table) => `the nftables table ${table}`),
	];
}

function failureText(error: unknown): string {
	return isCommandError(error, "COMMAND_NOT_PERMITTED")
		? "cleanup: needs root, or CAP_NET_ADMIN and CAP_NET_RAW, to change packet rules"
		: `cleanup: ${describeError(error)}`;
}

import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runCommand } from "./lab-command.ts";

/** Programs that stand in PATH before the host's own, and fail as a test wants them to. */
export interface FakeTools extends AsyncDisposable {
	/** For the daemon: PATH with the fake programs first. */
	readonly env: Readonly<Record<string, string>>;
	/**
	 * Puts a shell script in place of a program. In it `$real` is the host's own, and `$folder` is where
	 * {@link read} and {@link write} find files.
	 */
	put(program: string, script: string): Promise<void>;
	/** What a script wrote; empty where there is no such file. */
	read(file: string): Promise<string>;
	write(file: string, text: string): Promise<void>;
	remove(file: string): Promise<void>;
}

export async function createFakeTools(): Promise<FakeTools> {
	const folder = await mkdtemp(join(tmpdir(), "kup-fake-tools-"));
	const { PATH: path = "" } = process.env;
	return {
		env: { PATH: `${folder}:${path}` },
		async put(program, script) {
			const { stdout } = await runCommand("sh", ["-c", `command -v ${program}`]);
			const text = `#!/bin/sh\nreal='${stdout.trim()}'\nfolder='${folder}'\n${script}\n`;
			await writeFile(join(folder, program), text, { mode: 0o755 });
		},
		read: (file) => readFile(join(folder, file), "utf8").catch(() => ""),
		write: (file, text) => writeFile(join(folder, file), text),
		remove: (file) => rm(join(folder, file), { force: true }),
		[Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
	};
}

/**
 * An iptables-restore that, each time it is to change rules, does the next word of the file "restores":
 * "busy" fails as a kernel without memory does, "forbidden" as without CAP_NET_ADMIN, all else works.
 * The last word holds for ever.
 */
export const SHAKY_RESTORE = `
case " $* " in *" --noflush "*) ;; *) exec "$real" "$@" ;; esac
read -r word rest <"$folder/restores"
[ -n "$rest" ] && echo "$rest" >"$folder/restores"
case "$word" in
busy) say='iptables-restore: line 9 failed: Resource temporarily unavailable.' ;;
forbidden) say='iptables-restore: Permission denied (you must be root)' ;;
*) exec "$real" "$@" ;;
esac
cat >/dev/null
echo "$say" >&2
exit 4`;

/** Never ends by itself, and does nothing; each call is a line of the file "calls". */
export const HANGING = `
echo "$*" >>"$folder/calls"
exec sleep 1000`;

import type { SettingFiles } from "../../src/rules/setting-files.ts";

export const MAX = "/proc/sys/net/netfilter/nf_conntrack_max";
export const HASHSIZE = "/sys/module/nf_conntrack/parameters/hashsize";
export const ESTABLISHED = "/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_established";
export const CLOSE_WAIT = "/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_close_wait";

/** The kernel's files in memory. */
export class FakeSettingFiles implements SettingFiles {
	readonly values = new Map<string, number>();
	/** Files that are read-only, and how the kernel says so: "EACCES". */
	readonly locked = new Map<string, string>();
	/** Files that look writable and are not: "EOPNOTSUPP". */
	readonly refusing = new Map<string, string>();
	/** "PATH=VALUE", in order. */
	readonly written: string[] = [];

	/** A host as Linux is by itself: a small table, five days for a connection. */
	constructor(values: Readonly<Record<string, number>> = {}) {
		const usual = { [MAX]: 65_536, [HASHSIZE]: 16_384, [ESTABLISHED]: 432_000, [CLOSE_WAIT]: 60 };
		for (const [path, value] of Object.entries({ ...usual, ...values }))
			this.values.set(path, value);
	}

	read(path: string): ReturnType<SettingFiles["read"]> {
		const value = this.values.get(path);
		return value === undefined ? { problem: "ENOENT" } : { value };
	}

	writeProblem(path: string): string | undefined {
		return this.values.has(path) ? this.locked.get(path) : "ENOENT";
	}

	write(path: string, value: number): void {
		const code = this.writeProblem(path) ?? this.refusing.get(path);
		if (code !== undefined) throw Object.assign(new Error(code), { code });
		this.written.push(`${path}=${value}`);
		this.values.set(path, value);
	}
}

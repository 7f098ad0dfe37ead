import { readFileSync } from "node:fs";

/** What the kernel gives when nobody raised it (setrlimit(2)); for when it cannot be read. */
const USUAL_SOFT_LIMIT = 1024;

/** How many files this process may have open. */
export function readDescriptorLimit(): number {
	try {
		return parseDescriptorLimit(readFileSync("/proc/self/limits", "utf8"));
	} catch {
		return parseDescriptorLimit("");
	}
}

/**
 * The soft limit of open files out of the text of /proc/self/limits. Node raises the soft limit to
 * the hard one when it starts, so this is what there is.
 */
export function parseDescriptorLimit(limits: string): number {
	const soft = /^Max open files\s+(\d+|unlimited)/m.exec(limits)?.[1];
	if (soft === undefined) return USUAL_SOFT_LIMIT;
	// fs.nr_open bounds what "unlimited" can mean; its default is 2^20.
	return soft === "unlimited" ? 1_048_576 : Number(soft);
}

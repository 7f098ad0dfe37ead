import { createHash } from "node:crypto";

/**
 * Longest comment that we write. The kernel keeps 255 bytes and iptables cuts the rest off without a
 * word (measured, 1.8.9 nft and legacy); cutting ourselves keeps comments distinct.
 */
const MAX_COMMENT_LENGTH = 255;

/** Hexadecimal digits of the hash that ends a cut comment. */
const HASH_LENGTH = 12;

/**
 * The comment that names the owner of a rule, safe inside double quotes of a restore input.
 *
 * A quote or a newline in a name would end the comment or the line, and let whoever chose the name
 * write rules; every character that is not known to be harmless becomes "?". Keys of admitted
 * objects have none of those and are never cut, so their comment is the key itself.
 */
export function ruleComment(key: string): string {
	const safe = key.replace(/[^A-Za-z0-9._:/-]/g, "?");
	if (safe.length <= MAX_COMMENT_LENGTH) return safe;
	// "~" is in no key: a cut comment is never taken for one when rules are read back.
	const hash = createHash("sha256").update(key).digest("hex").slice(0, HASH_LENGTH);
	return `${safe.slice(0, MAX_COMMENT_LENGTH - HASH_LENGTH - 1)}~${hash}`;
}

/** Control characters out, one line, cut: what comes from outside must not forge log lines. */
export function oneLine(text: string, maxLength: number): string {
	const line = text.replaceAll(/[\p{Cc}\p{Cf}\u2028\u2029]+/gu, " ").trim();
	return line.length <= maxLength ? line : `${line.slice(0, maxLength)}…`;
}

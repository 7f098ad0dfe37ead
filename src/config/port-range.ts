import { isPort } from "../services/port.ts";
import type { PortRange } from "./config.ts";

/**
 * Reads a range of ports as kube-proxy writes it: "N", "A-B", or "A+offset", ends included.
 *
 * A range that begins at 0 ("", "0", "0-0", and as kube-proxy has it "0-100" too) means that the
 * kernel chooses.
 *
 * @returns `range: undefined` for the kernel's choice; undefined if it is no range.
 */
export function parsePortRange(
	text: string,
): { readonly range: PortRange | undefined } | undefined {
	const trimmed = text.trim();
	if (trimmed === "") return { range: undefined };
	const parts = /^(\d{1,5})(?:([-+])(\d{1,5}))?$/.exec(trimmed);
	if (parts === null) return undefined;
	const [, firstText = "", sign, secondText = "0"] = parts;
	const first = Number(firstText);
	const second = Number(secondText);
	const last = sign === "-" ? second : first + second;
	if (first === 0) return last <= 65_535 ? { range: undefined } : undefined;
	if (!isPort(first) || !isPort(last) || last < first) return undefined;
	return { range: { first, last } };
}

/** What {@link parsePortRange} reads back. */
export function formatPortRange(range: PortRange | undefined): string {
	return range === undefined ? "" : `${range.first}-${range.last}`;
}

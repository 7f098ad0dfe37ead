import { type IpRange, parseIpRange } from "../services/ip-range.ts";
import type { LocalDetectMode, NodePortSelection } from "./config.ts";
import type { ValueParser } from "./values.ts";

/** Far more than anybody lists; each one is a packet rule per node port. */
const MAX_RANGES = 100;

/** Parts with commas between, blanks around them cut off; empty where the text is. */
function parts(text: string): readonly string[] {
	return text.trim() === "" ? [] : text.split(",").map((part) => part.trim());
}

/** Empty means none. */
export const ranges: ValueParser<readonly IpRange[]> = (text) => {
	const found = parts(text).map((part) => parseIpRange(part));
	const good = found.filter((range) => range !== undefined);
	return good.length === found.length && good.length <= MAX_RANGES
		? { value: [...new Set(good)] }
		: { wanted: `at most ${MAX_RANGES} ranges with commas between, such as 10.0.0.0/8,fd00::/8` };
};

/** Empty means "no list": every address is fine; "none" means that none is. */
export const allowedRanges: ValueParser<readonly IpRange[] | undefined> = (text) => {
	if (text.trim() === "") return { value: undefined };
	const parsed = ranges(text.trim() === "none" ? "" : text);
	return "wanted" in parsed ? { wanted: `${parsed.wanted}, or none` } : parsed;
};

const KEYWORDS = ["all", "primary", "localhost"] as const;

/** kube-proxy's list of ranges and words; empty means all. */
export const nodePortAddresses: ValueParser<NodePortSelection> = (text) => {
	const given = parts(text);
	const words = KEYWORDS.filter((word) => given.includes(word));
	const rest = ranges(given.filter((part) => !KEYWORDS.some((word) => word === part)).join(","));
	if ("wanted" in rest) {
		const wanted =
			'ranges such as 10.0.0.0/8 with commas between, or "primary", "localhost", "all"';
		return { wanted };
	}
	return {
		value: {
			isAll: given.length === 0 || words.includes("all"),
			isPrimary: words.includes("primary"),
			isLocalhost: words.includes("localhost"),
			ranges: rest.value,
		},
	};
};

const DETECT_MODES = ["ClusterCIDR", "NodeCIDR", "BridgeInterface", "InterfaceNamePrefix"] as const;

/** Empty means the default of kube-proxy. */
export const detectLocalMode: ValueParser<LocalDetectMode> = (text) => {
	const value = text === "" ? "ClusterCIDR" : DETECT_MODES.find((mode) => mode === text);
	return value === undefined
		? { wanted: "ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix" }
		: { value };
};

/** IFNAMSIZ of the kernel is 16, of which one ends the name. */
const MAX_INTERFACE_NAME = 15;

/** The name of an interface, or with `spare` characters less the beginning of one; empty: not given. */
export function interfaceName(spare: 0 | 1): ValueParser<string | undefined> {
	const most = MAX_INTERFACE_NAME - spare;
	// No "+", which iptables takes for "whatever follows".
	const pattern = new RegExp(`^[A-Za-z0-9_][A-Za-z0-9_.@:-]{0,${most - 1}}$`);
	const what = spare === 0 ? "an interface's name" : "the beginning of interfaces' names";
	return (text) => {
		if (text.trim() === "") return { value: undefined };
		return pattern.test(text.trim())
			? { value: text.trim() }
			: { wanted: `${what}: 1 to ${most} letters, digits, '_', '.', '@', ':' or '-'` };
	};
}

import { type IpAddress, type IpFamily, ipFamilyOf, parseIpAddress } from "../services/address.ts";
import { isPort, type Port } from "../services/port.ts";
import {
	type Protocol,
	parseServicePortKey,
	type ServicePortKey,
	servicePortKey,
} from "../services/service-port.ts";
import { ruleWords, type SavedRules } from "./saved-rules.ts";

/** What a rule in the kernel says about who listened where when it was made. */
export interface PreviousBinding {
	/** Undefined where the rule's comment is not the key of a ServicePort. */
	readonly key: ServicePortKey | undefined;
	readonly protocol: Protocol;
	readonly family: IpFamily;
	/** The virtual address; undefined for a node port, which is on addresses of the node. */
	readonly address: IpAddress | undefined;
	/** The port that clients dial. */
	readonly port: Port;
	readonly proxyPort: Port;
	/** The address that the rule leads to, or undefined where it redirects. */
	readonly listenAddress: IpAddress | undefined;
}

/**
 * Reads our own rules, or those of a classic kube-proxy, back into facts.
 *
 * Tolerant: the rules may be of another version or touched by somebody; what is not understood is
 * left out. One per rule of the chains for arriving packets; its twin for packets of the node says
 * the same.
 */
export function previousBindings(saved: SavedRules, family: IpFamily): readonly PreviousBinding[] {
	const { own } = saved.tables.nat;
	const portals = own.get("KUBE-PORTALS-CONTAINER") ?? [];
	const nodePorts = own.get("KUBE-NODEPORT-CONTAINER") ?? [];
	return [
		...portals.flatMap((rule) => {
			const words = ruleWords(rule);
			const address = parseIpAddress((optionOf(words, "-d") ?? "").replace(/\/(?:32|128)$/, ""));
			if (address === undefined || ipFamilyOf(address) !== family) return [];
			return toPrevious(words, family, address);
		}),
		...nodePorts.flatMap((rule) => toPrevious(ruleWords(rule), family, undefined)),
	];
}

function toPrevious(
	words: readonly string[],
	family: IpFamily,
	address: IpAddress | undefined,
): readonly PreviousBinding[] {
	const protocol = toProtocol(optionOf(words, "-p"));
	const port = toPortNumber(optionOf(words, "--dport"));
	const target = targetOf(words);
	if (protocol === undefined || port === undefined || target === undefined) return [];
	const key = toKey(optionOf(words, "--comment") ?? "", protocol, family);
	return [{ key, protocol, family, address, port, ...target }];
}

function targetOf(
	words: readonly string[],
): Pick<PreviousBinding, "proxyPort" | "listenAddress"> | undefined {
	const redirect = toPortNumber(optionOf(words, "--to-ports"));
	if (redirect !== undefined) return { proxyPort: redirect, listenAddress: undefined };
	// "10.0.0.1:30001" or "[fd10::1]:30001".
	const [, bracketed, plain, number] =
		/^(?:\[([^\]]+)\]|([^:]+)):(\d+)$/.exec(optionOf(words, "--to-destination") ?? "") ?? [];
	const listenAddress = parseIpAddress(bracketed ?? plain ?? "");
	const proxyPort = toPortNumber(number);
	if (listenAddress === undefined || proxyPort === undefined) return undefined;
	return { proxyPort, listenAddress };
}

function toKey(comment: string, protocol: Protocol, family: IpFamily): ServicePortKey | undefined {
	const parts = parseServicePortKey(comment);
	if (parts?.protocol !== protocol || parts.family !== family || /[~?]/.test(comment)) {
		return undefined;
	}
	return servicePortKey(parts);
}

function optionOf(words: readonly string[], option: string): string | undefined {
	const at = words.indexOf(option);
	return at < 0 ? undefined : words[at + 1];
}

function toProtocol(text: string | undefined): Protocol | undefined {
	return text === "tcp" || text === "udp" ? text : undefined;
}

function toPortNumber(text: string | undefined): Port | undefined {
	const number = Number(text);
	return isPort(number) ? number : undefined;
}

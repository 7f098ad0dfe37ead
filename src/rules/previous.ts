import { type IpAddress, type IpFamily, ipFamilyOf, parseIpAddress } from "../services/address.ts";
import { isPort, type Port } from "../services/port.ts";
import { type Protocol, type ServicePortKey, servicePortKey } from "../services/service-port.ts";
import { ruleWords, type SavedRules } from "./saved-rules.ts";

/** What a rule in the kernel says about who listened where when it was made. */
export interface PreviousBinding {
	/** Undefined where the rule's comment is not the key of a ServicePort. */
	readonly key: ServicePortKey | undefined;
	readonly protocol: Protocol;
	readonly family: IpFamily;
	/** The virtual address. */
	readonly address: IpAddress;
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
 * left out. One per rule of the chain for arriving packets; its twin for packets of the node says the same.
 */
export function previousBindings(saved: SavedRules, family: IpFamily): readonly PreviousBinding[] {
	const rules = saved.tables.nat.own.get("KUBE-PORTALS-CONTAINER") ?? [];
	return rules.flatMap((rule) => {
		const words = ruleWords(rule);
		const protocol = toProtocol(optionOf(words, "-p"));
		const address = parseIpAddress((optionOf(words, "-d") ?? "").replace(/\/(?:32|128)$/, ""));
		const port = toPortNumber(optionOf(words, "--dport"));
		const target = targetOf(words);
		if (protocol === undefined || address === undefined) return [];
		if (port === undefined || target === undefined || ipFamilyOf(address) !== family) return [];
		const key = toKey(optionOf(words, "--comment") ?? "", protocol, family);
		return [{ key, protocol, family, address, port, ...target }];
	});
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

/** "namespace/service:portName/protocol/family", all parts but the port name not empty. */
const KEY = /^([^/:]+)\/([^/:]+):([^/:]*)\/(tcp|udp)\/(ipv4|ipv6)$/;

function toKey(comment: string, protocol: Protocol, family: IpFamily): ServicePortKey | undefined {
	const [, namespace, serviceName, portName, keyProtocol, keyFamily] = KEY.exec(comment) ?? [];
	if (namespace === undefined || serviceName === undefined || portName === undefined) {
		return undefined;
	}
	if (keyProtocol !== protocol || keyFamily !== family || /[~?]/.test(comment)) return undefined;
	return servicePortKey({ namespace, serviceName, portName, protocol, family });
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

import { planRules } from "../rules/plan.ts";
import { restoreText } from "../rules/restore-text.ts";
import { parseSavedRules } from "../rules/saved-rules.ts";
import { type IpFamily, parseIpAddress } from "../services/address.ts";
import { toPort } from "../services/port.ts";
import { type Binding, type Protocol, servicePortKey } from "../services/service-port.ts";

/** Addresses that are for documents only (RFC 5737, RFC 3849). */
const ADDRESSES: Readonly<Record<IpFamily, string>> = { ipv4: "192.0.2.1", ipv6: "2001:db8::1" };

/**
 * Input for iptables-restore that holds one rule of each kind that we ever make: to see whether the
 * kernel takes them all.
 */
export function sampleRules(family: IpFamily): string {
	const bindings = [
		sample(family, "tcp", 1, false),
		sample(family, "tcp", 2, true),
		sample(family, "udp", 3, false),
		sample(family, "udp", 4, true),
	];
	return restoreText(planRules(bindings, family), parseSavedRules(""));
}

function sample(family: IpFamily, protocol: Protocol, number: number, refuses: boolean): Binding {
	const address = parseIpAddress(ADDRESSES[family]);
	if (address === undefined) throw new RangeError(`Cannot use ${ADDRESSES[family]} as an address`);
	const parts = { namespace: "check", serviceName: "sample", portName: `p${number}` };
	return {
		key: servicePortKey({ ...parts, protocol, family }),
		name: `check/sample:p${number}`,
		protocol,
		family,
		port: toPort(number),
		virtualAddresses: [{ kind: "ClusterIP", address }],
		proxyPort: toPort(40_000 + number),
		listenAddress: protocol === "udp" ? address : undefined,
		refuses,
	};
}

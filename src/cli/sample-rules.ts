import { planRules } from "../rules/plan.ts";
import { restoreText } from "../rules/restore-text.ts";
import { parseSavedRules } from "../rules/saved-rules.ts";
import { type IpAddress, type IpFamily, ipFamilyOf, parseIpAddress } from "../services/address.ts";
import { rangeOf } from "../services/ip-range.ts";
import { type NodeNetwork, PLAIN_NETWORK } from "../services/node-network.ts";
import { toPort } from "../services/port.ts";
import { type Binding, type Protocol, servicePortKey } from "../services/service-port.ts";

/** Addresses that are for documents only (RFC 5737, RFC 3849). */
const ADDRESSES: Readonly<Record<IpFamily, string>> = { ipv4: "192.0.2.1", ipv6: "2001:db8::1" };

/**
 * Input for iptables-restore that holds one rule of each kind that we ever make: to see whether the
 * kernel takes them all.
 */
export function sampleRules(family: IpFamily): string {
	const address = parseIpAddress(ADDRESSES[family]);
	if (address === undefined) throw new RangeError(`Cannot use ${ADDRESSES[family]} as an address`);
	const bindings = (["tcp", "udp"] as const).flatMap((protocol) =>
		(["serve", "reject", "drop"] as const).map((verdict, index) =>
			sample(address, protocol, verdict, (protocol === "tcp" ? 10 : 20) + index),
		),
	);
	const network: NodeNetwork = {
		...PLAIN_NETWORK,
		addresses: new Set([address]),
		nodePorts: { ranges: { ipv4: "all", ipv6: "all" }, onLoopback: false },
		pods: { ranges: [rangeOf(address)], interfaces: ["sample+"] },
	};
	const healthCheckPorts = [toPort(30_000)];
	const clusterIps = { owned: [address], ranges: [rangeOf(address)] };
	return restoreText(
		planRules({ bindings, network, healthCheckPorts, clusterIps }, family),
		parseSavedRules(""),
	);
}

function sample(
	address: IpAddress,
	protocol: Protocol,
	verdict: Binding["verdict"],
	number: number,
): Binding {
	const family = ipFamilyOf(address);
	const parts = { namespace: "check", serviceName: "sample", portName: `p${number}` };
	return {
		key: servicePortKey({ ...parts, protocol, family }),
		name: `check/sample:p${number}`,
		protocol,
		family,
		port: toPort(number),
		virtualAddresses: [
			{ kind: "LoadBalancerIP", address, clients: "inside", sourceRanges: [rangeOf(address)] },
		],
		nodePort: { port: toPort(30_000 + number), clients: "all" },
		proxyPort: toPort(40_000 + number),
		// Of listeners on all addresses and on one.
		listenAddress: protocol === "udp" && verdict === "serve" ? address : undefined,
		verdict,
	};
}

import type { Config } from "../config/config.ts";
import { planRules, type WantedRules } from "../rules/plan.ts";
import { restoreText } from "../rules/restore-text.ts";
import { parseSavedRules } from "../rules/saved-rules.ts";
import { IP_FAMILIES, type IpAddress, type IpFamily } from "../services/address.ts";
import { toBinding } from "../services/binding.ts";
import { planServicePorts } from "../services/plan-service-ports.ts";
import { isPort } from "../services/port.ts";
import { type Binding, parseServicePortKey, type ServicePort } from "../services/service-port.ts";
import { EXIT_FAILED, EXIT_FINE } from "./exit-codes.ts";
import type { Host } from "./host.ts";
import { complain } from "./report.ts";

/** Where assumed proxy ports begin without --proxy-port-range: far from what people give Services. */
const FIRST_ASSUMED_PORT = 40_001;

/**
 * `plan`: what `run` would give to iptables-restore on a host where no rule of ours is yet. Proxy
 * ports are assumed, since only an open listener has one. Changes nothing and needs no root.
 *
 * @returns 1 only if nothing could be planned; a part that could not be is told on standard error.
 */
export async function planCommand(
	host: Host,
	config: Config,
	families: readonly IpFamily[],
	signal: AbortSignal,
): Promise<number> {
	const { snapshot, sources } = await host.doors.readSources(config, signal);
	for (const { name, problems } of sources) {
		for (const problem of problems) complain(host, `plan: ${name}: ${problem}`);
	}
	if (sources.every(({ isComplete }) => !isComplete)) return EXIT_FAILED;
	const look = host.doors.lookAtNode(config, snapshot.node);
	const plan = planServicePorts(snapshot, look.view, config);
	const { servicePorts, unserved, clusterIps } = plan;
	for (const { name, reason, detail } of unserved) {
		complain(host, `plan: ${name}: not served (${reason}): ${detail}`);
	}
	if (config.rules === "none") {
		host.out("# --rules none: no packet rules\n");
		return EXIT_FINE;
	}
	const udpAddress = (family: IpFamily) => look.udpAddress(family);
	const { bindings, problems } = assumeBindings(
		servicePorts,
		config,
		(await host.doors.relayEngine(config)) === "stream" ? udpAddress : undefined,
	);
	for (const problem of problems) complain(host, `plan: ${problem}`);
	const healthCheckPorts = plan.healthChecks.map(({ port }) => port);
	const wanted = { bindings, network: look.network, healthCheckPorts, clusterIps };
	for (const family of families) host.out(familyText(wanted, family));
	return EXIT_FINE;
}

function familyText(wanted: WantedRules, family: IpFamily): string {
	const program = family === "ipv4" ? "iptables-restore" : "ip6tables-restore";
	const own = wanted.bindings.filter((binding) => binding.family === family);
	const ports = own.map(({ key, name, protocol, proxyPort }) => {
		const isLocal = parseServicePortKey(key)?.pool === "local";
		const what = isLocal ? `${protocol}, only endpoints on this node` : protocol;
		return `# ${name} (${what}): proxy port ${proxyPort}, assumed\n`;
	});
	return [
		`# ${family}: input of ${program} --noflush on a host without rules of ours\n`,
		...ports,
		...(wanted.network.arrivalAddress.tcp[family] === undefined
			? []
			: ["# this node has interfaces without an address: arriving TCP is led by DNAT\n"]),
		restoreText(planRules(wanted, family), parseSavedRules("")),
	].join("");
}

/**
 * What the listeners would report, had each the next port.
 *
 * @param udpAddress where UDP listeners of a family are bound; undefined: to all addresses, as others.
 */
export function assumeBindings(
	servicePorts: readonly ServicePort[],
	config: Config,
	udpAddress: ((family: IpFamily) => IpAddress | undefined) | undefined,
): { readonly bindings: readonly Binding[]; readonly problems: readonly string[] } {
	const addresses = Object.fromEntries(
		IP_FAMILIES.map((family) => [family, config.bindAddress ?? udpAddress?.(family)]),
	);
	const bindings: Binding[] = [];
	const problems: string[] = [];
	let next: number = config.proxyPortRange?.first ?? FIRST_ASSUMED_PORT;
	const last: number = config.proxyPortRange?.last ?? 65_535;
	for (const servicePort of servicePorts) {
		const { name, protocol, family } = servicePort;
		const listenAddress = protocol === "udp" ? addresses[family] : config.bindAddress;
		const proxyPort = next;
		if (protocol === "udp" && udpAddress !== undefined && listenAddress === undefined) {
			problems.push(`${name} is left out: this node has no ${family} address for UDP`);
		} else if (!isPort(proxyPort) || proxyPort > last) {
			problems.push(`${name} is left out: no proxy port is left`);
		} else {
			bindings.push(toBinding(servicePort, { proxyPort, listenAddress }));
			next += 1;
		}
	}
	return { bindings, problems };
}

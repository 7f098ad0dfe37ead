import type { Variant } from "../../src/rules/xtables.ts";
import type { Agent } from "./agent.ts";
import type { DaemonProcess } from "./daemon-process.ts";
import type { RELAY_ENGINES } from "./relay-engines.ts";
import { SCENARIO_FLAGS } from "./scenario-model.ts";
import type { Target } from "./scenario-objects.ts";
import type { Reached } from "./scenario-packets.ts";
import type { Place } from "./scenario-schema.ts";
import { createServiceLab, eventually, savedRules } from "./service-lab.ts";
import { expectState, MARKER_NAMESPACE, stateMarker } from "./state-marker.ts";

/** A lab and a daemon in it that goes through one scenario after the other. */
export interface ScenarioLab {
	readonly daemon: DaemonProcess;
	/** What the host had in iptables before the daemon. */
	readonly hostRules: readonly string[];
	/** Makes these all that there is; resolves when the rules say so. */
	become(objects: readonly unknown[]): Promise<void>;
	/** Takes everything away, without waiting. */
	clear(): Promise<void>;
	/** What really comes of connections, asked as often as it takes to see what is expected. */
	observe(from: Place, target: Target, wanted: Reached): Promise<Reached>;
	/** All that iptables holds, sorted: the tables come in any order. */
	rules(variant?: Variant): Promise<readonly string[]>;
	/** By ServicePort. */
	proxyPorts(): Promise<Readonly<Record<string, string>>>;
	close(): Promise<void>;
}

const HOST_RULE = ["INPUT", "-i", "lo", "-j", "ACCEPT"] as const;
const FILE = "scenario.json";

/** Where an answer is wanted: as long as a slow machine may take. */
const PATIENT_MS = 5_000;
/** Where none is: long after it would have come. */
const QUICK_MS = 600;

export async function createScenarioLab(
	variant: Variant,
	relay: (typeof RELAY_ENGINES)[number],
): Promise<ScenarioLab> {
	const services = await createServiceLab();
	const { node } = services.lab;
	// A rule of the host's makes the daemon take this variant.
	await node.exec(`iptables-${variant}`, ["-A", ...HOST_RULE]);
	await node.exec(`ip6tables-${variant}`, ["-A", ...HOST_RULE]);
	// The node is then 10.1.0.1 to all that has no better source.
	await node.ip("route", "replace", "default", "via", "10.1.0.2");
	await node.ip("-6", "route", "replace", "default", "via", "fd10:1::2");
	await services.serveTcp({ mode: "greet", port: 8080 });
	await services.serveUdp({ mode: "name", port: 8080, address: "::" });
	const agents = await agentsOf(services);
	const rules = async (which = variant) => sorted(await savedRules(node, which));
	const hostRules = await rules();
	await services.write(FILE, []);
	const flags = Object.entries(SCENARIO_FLAGS).map(([name, values]) => `--${name}=${values[0]}`);
	const daemon = await services.start([...flags, `--relay=${relay}`]);
	let round = 0;
	return {
		daemon,
		hostRules,
		async become(objects) {
			round += 1;
			await services.write(FILE, [...objects, ...stateMarker(round)]);
			await eventually(() => expectState(agents.node, round), 20_000);
		},
		clear: () => services.write(FILE, []),
		observe: (from, target, wanted) => observe(agents[from], target, wanted),
		rules,
		proxyPorts: async () => proxyPortsIn(await rules()),
		close: () => services.close(),
	};
}

async function agentsOf({
	lab,
	client,
}: Awaited<ReturnType<typeof createServiceLab>>): Promise<Record<Place, Agent>> {
	const [pod] = lab.endpoints;
	if (pod === undefined) throw new TypeError("the lab has no endpoint");
	return {
		client,
		outside: await lab.outside.agent(),
		node: await lab.node.agent(),
		pod: await pod.agent(),
	};
}

async function observe(agent: Agent, target: Target, wanted: Reached): Promise<Reached> {
	if (wanted === "refused") return nameOf(await ask(agent, target, 1, PATIENT_MS), wanted);
	if (wanted === "dropped") return nameOf(await ask(agent, target, 1, QUICK_MS), wanted);
	if (wanted === "not captured") {
		// What becomes of it is the network's business: an endpoint must not have it.
		const answers = await ask(agent, target, 1, QUICK_MS);
		return answers.some((answer) => /^ep\d/.test(answer)) ? answers : wanted;
	}
	if ("sticky" in wanted) {
		const answers = await ask(agent, target, wanted.sticky.length * 2, PATIENT_MS);
		const isOne = answers.length === 1 && wanted.sticky.includes(answers[0] ?? "");
		return isOne ? wanted : answers;
	}
	// Each is chosen in turn, so that twice round shows all, and one that should not be there.
	return await ask(agent, target, wanted.length * 2 + 1, PATIENT_MS);
}

/** Who answered, and the codes of failures, each once. */
async function ask(
	agent: Agent,
	{ address, port, protocol }: Target,
	count: number,
	timeoutMs: number,
): Promise<readonly string[]> {
	const traffic = { address, port, count, timeoutMs };
	const results =
		protocol === "tcp"
			? await agent.tcp(traffic)
			: await agent.udp({ ...traffic, connected: true, socketEach: true });
	const answers = results.map(({ error, answer }) => error ?? answer);
	return sorted(new Set(answers));
}

function sorted(texts: Iterable<string>): readonly string[] {
	return [...texts].toSorted((a, b) => (a < b ? -1 : 1));
}

function nameOf(answers: readonly string[], wanted: "refused" | "dropped"): Reached {
	if (answers.join() === "ECONNREFUSED") return "refused";
	// A datagram that does not leave the host that sends it fails so at once, refused or dropped.
	if (answers.join() === "EPERM") return wanted;
	return answers.join() === "TIMEOUT" ? "dropped" : answers;
}

function proxyPortsIn(rules: readonly string[]): Readonly<Record<string, string>> {
	const led = /--comment "?([^" ]+)"? -j (?:REDIRECT --to-ports |DNAT --to-destination \S+:)(\d+)/;
	return Object.fromEntries(
		rules.flatMap((rule) => {
			const [, key, port] = led.exec(rule) ?? [];
			const isOfScenario = key !== undefined && !key.startsWith(`${MARKER_NAMESPACE}/`);
			return isOfScenario && port !== undefined ? [[key, port]] : [];
		}),
	);
}

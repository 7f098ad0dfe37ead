import type { Command } from "commander";
import { parseListenAddress } from "../config/listen-address.ts";
import { type ConfigProblem, wanted } from "../config/problem.ts";
import { parseIpAddress } from "../services/address.ts";
import { toPort } from "../services/port.ts";
import { connectionsCommand } from "./connections.ts";
import type { Host } from "./host.ts";
import {
	abortOnInterrupt,
	addCommand,
	judged,
	type SetStatus,
	straysOf,
} from "./judged-command.ts";
import { statusCommand } from "./status.ts";

const DEFAULT_STATUS_ADDRESS = "127.0.0.1:10249";

interface StatusFlags {
	readonly json?: true;
	readonly watch?: true;
	readonly service?: string;
	readonly client?: string;
	readonly statusAddress: string;
}

function addStatusOptions(command: Command): Command {
	return command
		.option("--json", "print what the daemon answered, as JSON")
		.option(
			"--status-address <IP:PORT>",
			`the daemon's --metrics-bind-address (default: ${DEFAULT_STATUS_ADDRESS})`,
			DEFAULT_STATUS_ADDRESS,
		);
}

export function addStatus(program: Command, host: Host, setStatus: SetStatus): void {
	const { command } = addCommand(
		program,
		"status",
		"ask the running daemon what it serves and how it is",
	);
	addStatusOptions(command).action(async (flags: StatusFlags) => {
		const { address, problems } = judgeAddress(flags.statusAddress);
		const options = { address, json: flags.json === true };
		setStatus(
			await judged(host, [...straysOf(command), ...problems], () =>
				statusCommand(host, options, abortOnInterrupt(host)),
			),
		);
	});
}

export function addConnections(program: Command, host: Host, setStatus: SetStatus): void {
	const { command } = addCommand(program, "connections", "ask the running daemon what it relays");
	addStatusOptions(command)
		.option("--watch", "one line per connection that begins or ends, until interrupted")
		.option(
			"--service <NAMESPACE/NAME[:PORT]>",
			"only those of this Service, or of this port of it",
		)
		.option("--client <IP>", "only those of this client")
		.action(async (flags: StatusFlags) => {
			const { address, problems } = judgeAddress(flags.statusAddress);
			const client = flags.client === undefined ? undefined : parseIpAddress(flags.client);
			const options = {
				address,
				json: flags.json === true,
				watch: flags.watch === true,
				service: flags.service,
				client,
			};
			const all = [...straysOf(command), ...problems, ...judgeFilter(flags, client)];
			setStatus(
				await judged(host, all, () => connectionsCommand(host, options, abortOnInterrupt(host))),
			);
		});
}

function judgeAddress(text: string) {
	const port = toPort(10_249);
	const address = parseListenAddress(text, port);
	const fallback = parseListenAddress(DEFAULT_STATUS_ADDRESS, port);
	if (fallback === undefined) throw new RangeError(`Cannot use ${DEFAULT_STATUS_ADDRESS}`);
	const problems =
		address === undefined
			? [wanted("--status-address", `an address such as ${DEFAULT_STATUS_ADDRESS}`, text)]
			: [];
	return { address: address ?? fallback, problems };
}

function judgeFilter(flags: StatusFlags, client: string | undefined): readonly ConfigProblem[] {
	const { service } = flags;
	return [
		...(service === undefined || /^[a-z0-9.-]+\/[a-z0-9.-]+(:[a-z0-9-]+)?$/.test(service)
			? []
			: [wanted("--service", "NAMESPACE/NAME or NAMESPACE/NAME:PORT", service)]),
		...(flags.client === undefined || client !== undefined
			? []
			: [wanted("--client", "an IP address", flags.client)]),
	];
}

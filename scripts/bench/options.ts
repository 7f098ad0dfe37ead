import { parseArgs } from "node:util";
import { type PeerAddress, readPeers } from "./peer-addresses.ts";
import { UsageError } from "./usage-error.ts";

export interface BenchOptions {
	readonly rounds: number;
	/** Of each measurement. */
	readonly seconds: number;
	/** Names, in the order of the tables. */
	readonly measurements: readonly string[];
	readonly contenders: readonly string[];
	readonly peers: readonly PeerAddress[];
	readonly jsonFile: string | undefined;
	readonly svgFile: string | undefined;
	/** Figures on bad footing, too. */
	readonly anyway: boolean;
	/** A node that does not track connections but where its proxy makes it do so. */
	readonly bare: boolean;
	readonly help: boolean;
}

/** The names that may be chosen. */
export interface BenchNames {
	readonly measurements: readonly string[];
	readonly contenders: readonly { readonly name: string; readonly isDefault: boolean }[];
}

export function benchHelp({ measurements, contenders }: BenchNames): string {
	const byDefault = contenders.filter(({ isDefault }) => isDefault).map(({ name }) => name);
	const others = contenders.filter(({ isDefault }) => !isDefault).map(({ name }) => name);
	return `npm run bench -- [OPTION…]      measures the daemon beside other proxies; docs/benchmarks.md explains the figures

  --only NAME,…             of ${measurements.join(", ")}
  --contenders NAME,…       of ${byDefault.join(", ")}; not by default: ${others.join(", ")}
  --rounds N                in each, every contender is measured once; 1 to 100, default 3
  --seconds N               of each measurement, after its warm-up; 1 to 60, default 4
  --peer NAME=HOST:PORT     another proxy, which leads to the endpoint's HTTP port; it is waited for
  --peer-bulk NAME=HOST:PORT, --peer-udp NAME=HOST:PORT
                            the same for the endpoint's iperf3 port and UDP port; one NAME is one proxy
  --json FILE               writes all figures
  --svg FILE                writes a chart
  --bare                    the node has no packet rules but its proxy's. Without it, it has those of a cluster's node,
                            and the kernel tracks the connections of every contender
  --anyway                  gives figures on bad footing, too, and says so

  Exit status: 0 there are figures; 1 there are none, and it says why; 2 wrong usage
`;
}

/** @throws {UsageError} */
export function readBenchOptions(args: readonly string[], names: BenchNames): BenchOptions {
	const values = parsed(args);
	const contenderNames = names.contenders.map(({ name }) => name);
	const byDefault = names.contenders.filter(({ isDefault }) => isDefault).map(({ name }) => name);
	const peers = readPeers(
		{ "--peer": values.peer, "--peer-bulk": values["peer-bulk"], "--peer-udp": values["peer-udp"] },
		contenderNames,
	);
	return {
		rounds: integerIn("--rounds", values.rounds, 100),
		seconds: integerIn("--seconds", values.seconds, 60),
		measurements: chosen("--only", values.only, names.measurements, names.measurements),
		contenders: chosen("--contenders", values.contenders, contenderNames, byDefault),
		peers,
		jsonFile: values.json,
		svgFile: values.svg,
		anyway: values.anyway,
		bare: values.bare,
		help: values.help,
	};
}

function parsed(args: readonly string[]) {
	try {
		return parseArgs({
			args: [...args],
			options: {
				only: { type: "string" },
				contenders: { type: "string" },
				rounds: { type: "string", default: "3" },
				seconds: { type: "string", default: "4" },
				peer: { type: "string", multiple: true, default: [] },
				"peer-bulk": { type: "string", multiple: true, default: [] },
				"peer-udp": { type: "string", multiple: true, default: [] },
				json: { type: "string" },
				svg: { type: "string" },
				bare: { type: "boolean", default: false },
				anyway: { type: "boolean", default: false },
				help: { type: "boolean", default: false },
			},
		}).values;
	} catch (error) {
		// Node's own words name the option.
		throw new UsageError(error instanceof Error ? error.message : String(error));
	}
}

function integerIn(flag: string, text: string, max: number): number {
	const number = /^\d+$/.test(text) ? Number(text) : Number.NaN;
	if (number >= 1 && number <= max) return number;
	throw new UsageError(`${flag}: wanted an integer from 1 to ${max}, got "${text}"`);
}

function chosen(
	flag: string,
	text: string | undefined,
	all: readonly string[],
	byDefault: readonly string[],
): readonly string[] {
	if (text === undefined) return byDefault;
	const wanted = text.split(",").map((name) => name.trim());
	const unknown = wanted.find((name) => !all.includes(name));
	if (unknown !== undefined) {
		throw new UsageError(`${flag}: wanted names of ${all.join(", ")}, got "${unknown}"`);
	}
	return all.filter((name) => wanted.includes(name));
}

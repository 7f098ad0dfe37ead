import { ruleWords } from "../../src/rules/saved-rules.ts";
import { parseIpAddress } from "../../src/services/address.ts";
import { isInRange, parseIpRange } from "../../src/services/ip-range.ts";

/** A packet as it comes to the node, or is made on it. */
export interface Packet {
	/** Interface that it came in on; undefined for one that a process of the node sends. */
	readonly inInterface: string | undefined;
	readonly source: string;
	readonly destination: string;
	readonly protocol: "tcp" | "udp" | "icmp";
	readonly destinationPort: number;
	readonly state: "NEW" | "ESTABLISHED" | "RELATED";
	/** For flows that are not new: where the flow was led to when it began. */
	readonly natTo?: { readonly address: string; readonly port: number };
}

export interface Verdict {
	/** "REJECT tcp-reset" and the like carry what is sent back. */
	readonly verdict: "ACCEPT" | "DROP" | `REJECT ${string}`;
	/** Where the packet is delivered to, after NAT. */
	readonly address: string;
	readonly port: number;
	/** False where no rule of filter decided: the policy of INPUT, or nobody, did. */
	readonly isByRule: boolean;
	/** The comment of the nat rule that decided, "" without one. */
	readonly comment: string;
}

export interface TracerOptions {
	/** Policy of INPUT: what happens to packets that no rule decides. */
	readonly inputPolicy?: "ACCEPT" | "DROP";
	/** Addresses of the node. The first is what REDIRECT leads arriving packets to. */
	readonly nodeAddresses: readonly string[];
	/** Rules of the host's own in INPUT, behind our jump: "-A INPUT -p tcp --dport 22 -j ACCEPT". */
	readonly hostRules?: readonly string[];
}

type Table = ReadonlyMap<string, readonly (readonly string[])[]>;

interface Traveller {
	readonly packet: Packet;
	address: string;
	port: number;
	isNatted: boolean;
	comment: string;
}

/**
 * Walks packets through restore text: nat PREROUTING or OUTPUT, filter OUTPUT for what the node sends,
 * then filter INPUT for what is the node's and FORWARD for what is not.
 *
 * Knows exactly the shapes of rules that we write. Anything else throws: a test must not pass since
 * the tracer looked away.
 */
export class PacketTracer {
	readonly #tables: ReadonlyMap<string, Table>;
	readonly #options: TracerOptions;

	constructor(restoreText: string, options: TracerOptions) {
		this.#tables = parseTables(restoreText, options.hostRules ?? []);
		this.#options = options;
	}

	trace(packet: Packet): Verdict {
		const traveller: Traveller = {
			packet,
			address: packet.natTo?.address ?? packet.destination,
			port: packet.natTo?.port ?? packet.destinationPort,
			isNatted: packet.natTo !== undefined,
			comment: "",
		};
		// Only the first packet of a flow is shown to the nat table.
		if (packet.state === "NEW") {
			this.#walk("nat", packet.inInterface === undefined ? "OUTPUT" : "PREROUTING", traveller);
		}
		const decided = this.#filter(traveller);
		const { address, port, comment } = traveller;
		const { inputPolicy = "ACCEPT" } = this.#options;
		const verdict = decided ?? (this.#isLocal(address) ? inputPolicy : "ACCEPT");
		return { verdict, isByRule: decided !== undefined, address, port, comment };
	}

	#filter(traveller: Traveller): Verdict["verdict"] | undefined {
		const isSent = traveller.packet.inInterface === undefined;
		const sent = isSent ? this.#walk("filter", "OUTPUT", traveller) : undefined;
		if (sent !== undefined && sent !== "ACCEPT") return sent;
		if (this.#isLocal(traveller.address)) {
			return this.#walk("filter", "INPUT", traveller);
		}
		return isSent ? undefined : this.#walk("filter", "FORWARD", traveller);
	}

	/** @returns undefined when the chain ended or returned without a decision. */
	#walk(table: string, chain: string, traveller: Traveller): Verdict["verdict"] | undefined {
		for (const words of this.#tables.get(table)?.get(chain) ?? []) {
			const [isMatch, comment, target] = this.#match(words, traveller);
			if (!isMatch) continue;
			const [name = "", ...parameters] = target;
			if (name === "RETURN") return undefined;
			if (this.#tables.get(table)?.has(name) === true) {
				const verdict = this.#walk(table, name, traveller);
				if (verdict !== undefined) return verdict;
			} else {
				return this.#target(name, parameters, comment, traveller);
			}
		}
		return undefined;
	}

	#target(
		name: string,
		[option, value = ""]: readonly string[],
		comment: string,
		traveller: Traveller,
	): Verdict["verdict"] {
		switch (`${name} ${option ?? ""}`.trim()) {
			case "ACCEPT":
			case "DROP":
				return name === "ACCEPT" ? "ACCEPT" : "DROP";
			case "REJECT --reject-with":
				return `REJECT ${value}`;
			case "REDIRECT --to-ports":
				traveller.address =
					traveller.packet.inInterface === undefined
						? loopbackFor(traveller.packet.destination)
						: (this.#options.nodeAddresses[0] ?? "");
				traveller.port = Number(value);
				break;
			case "DNAT --to-destination": {
				const at = value.lastIndexOf(":");
				traveller.address = value.slice(0, at).replace(/^\[|\]$/g, "");
				traveller.port = Number(value.slice(at + 1));
				break;
			}
			default:
				throw new Error(`Cannot trace target "${name} ${option} ${value}"`);
		}
		traveller.isNatted = true;
		traveller.comment = comment;
		return "ACCEPT";
	}

	#match(
		words: readonly string[],
		traveller: Traveller,
	): readonly [boolean, string, readonly string[]] {
		const { packet } = traveller;
		let isMatch = true;
		let comment = "";
		let at = 0;
		while (at < words.length) {
			const isNegated = words[at] === "!";
			if (isNegated) at += 1;
			const option = words[at] ?? "";
			const value = words[at + 1] ?? "";
			at += 2;
			if (option === "-j") return [isMatch, comment, words.slice(at - 1)];
			if (option === "--comment") comment = value;
			else isMatch &&= this.#isHit(option, value, packet, traveller) !== isNegated;
		}
		throw new Error(`Cannot trace a rule without target: "${words.join(" ")}"`);
	}

	#isHit(option: string, value: string, packet: Packet, traveller: Traveller): boolean {
		switch (option) {
			case "-s":
				return isIn(packet.source, value);
			case "-d":
				return isIn(traveller.address, value);
			case "-i": {
				// What the node sends to itself comes in on lo.
				const name = packet.inInterface ?? "lo";
				return value.endsWith("+") ? name.startsWith(value.slice(0, -1)) : value === name;
			}
			case "-p":
				return value === packet.protocol;
			case "-m":
				if (/^(?:tcp|udp|comment|conntrack|multiport|addrtype)$/.test(value)) return true;
				break;
			case "--dport":
				return value === String(traveller.port);
			case "--dports": {
				const ports = value.split(",");
				if (ports.length > 15) throw new Error(`Cannot trace ${ports.length} ports in one rule`);
				return ports.includes(String(traveller.port));
			}
			case "--dst-type":
				if (value === "LOCAL") return this.#isLocal(traveller.address);
				break;
			// What conntrack has written down: where the flow was sent before any NAT.
			case "--ctorigdst":
				return value === packet.destination;
			case "--ctorigdstport":
				return value === String(packet.destinationPort);
			case "--ctstate":
				return value
					.split(",")
					.some((state) => (state === "DNAT" ? traveller.isNatted : state === packet.state));
			default:
		}
		throw new Error(`Cannot trace match "${option} ${value}"`);
	}

	#isLocal(address: string): boolean {
		return (
			this.#options.nodeAddresses.includes(address) || LOOPBACK.some((each) => isIn(address, each))
		);
	}
}

/** Local to every node, each address of them. */
const LOOPBACK = ["127.0.0.0/8", "::1/128"] as const;

/** @throws {Error} for a range that iptables would not take; an address alone is one, too. */
function isIn(addressText: string, rangeText: string): boolean {
	const address = parseIpAddress(addressText);
	const bits = rangeText.includes(":") ? 128 : 32;
	const range = parseIpRange(rangeText.includes("/") ? rangeText : `${rangeText}/${bits}`);
	if (address === undefined || range === undefined) {
		throw new Error(`Cannot trace address "${addressText}" with range "${rangeText}"`);
	}
	return isInRange(address, range);
}

type DraftTable = Map<string, (readonly string[])[]>;

function parseTables(text: string, hostRules: readonly string[]): ReadonlyMap<string, Table> {
	const tables = new Map<string, DraftTable>();
	let table: DraftTable = new Map();
	for (const line of text.split("\n")) {
		if (line.startsWith("*")) {
			table = new Map();
			tables.set(line.slice(1), table);
		} else if (line !== "" && line !== "COMMIT") {
			addLine(table, line);
		}
	}
	const filter = tables.get("filter");
	for (const rule of hostRules) if (filter !== undefined) addLine(filter, rule);
	return tables;
}

function addLine(table: DraftTable, line: string): void {
	const words = ruleWords(line);
	const [command = "", chain = "", position] = words;
	if (command.startsWith(":")) table.set(command.slice(1), []);
	else if (command === "-A") rulesOf(table, chain).push(words.slice(2));
	else if (command === "-I" && position === "1") rulesOf(table, chain).unshift(words.slice(3));
	else throw new Error(`Cannot trace line "${line}"`);
}

function rulesOf(table: DraftTable, chain: string): (readonly string[])[] {
	const existing = table.get(chain);
	if (existing !== undefined) return existing;
	if (!/^(?:PREROUTING|OUTPUT|INPUT|FORWARD)$/.test(chain)) {
		throw new Error(`Cannot trace a rule in undeclared chain ${chain}`);
	}
	const rules: (readonly string[])[] = [];
	table.set(chain, rules);
	return rules;
}

function loopbackFor(address: string): string {
	return address.includes(":") ? "::1" : "127.0.0.1";
}

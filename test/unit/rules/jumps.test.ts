import { expect, it } from "vitest";
import {
	foreignReferences,
	jumpDeletions,
	jumpProblems,
	jumpRepairs,
} from "../../../src/rules/jumps.ts";
import { parseSavedRules } from "../../../src/rules/saved-rules.ts";

const PORTALS =
	'-m comment --comment "handle ClusterIPs; NOTE: this must be before the NodePort rules" -j KUBE-PORTALS-HOST';
const NODE_PORTS =
	'-m addrtype --dst-type LOCAL -m comment --comment "handle service NodePorts; NOTE: this must be the last rule in the chain" -j KUBE-NODEPORT-HOST';
const other = "-A OUTPUT -d 127.0.0.0/8 -j RETURN";

const arrivals = [
	`-A PREROUTING ${PORTALS.replace("HOST", "CONTAINER")}`,
	`-A PREROUTING ${NODE_PORTS.replace("HOST", "CONTAINER")}`,
];

/** A nat table with our jumps right in PREROUTING, and these rules in OUTPUT. */
function nat(...output: readonly string[]) {
	const lines = ["*nat", ":KUBE-PORTALS-HOST - [0:0]", ...arrivals, ...output, "COMMIT"];
	return parseSavedRules(lines.join("\n")).tables.nat;
}

it("jumpRepairs() does nothing where every jump is in its place", () => {
	const saved = nat(`-A OUTPUT ${PORTALS}`, other, `-A OUTPUT ${NODE_PORTS}`);

	expect(jumpRepairs("nat", saved)).toEqual([]);
	expect(jumpProblems("nat", saved)).toEqual([]);
});

it.each([
	["nothing is there", [], []],
	["both are lost", [other], []],
	["one is lost", [`-A OUTPUT ${PORTALS}`, other], [`-D OUTPUT ${PORTALS}`]],
	[
		"one is doubled",
		[`-A OUTPUT ${PORTALS}`, `-A OUTPUT ${PORTALS}`, `-A OUTPUT ${NODE_PORTS}`],
		[`-D OUTPUT ${PORTALS}`, `-D OUTPUT ${PORTALS}`, `-D OUTPUT ${NODE_PORTS}`],
	],
	[
		"somebody inserted a rule before",
		[other, `-A OUTPUT ${PORTALS}`, `-A OUTPUT ${NODE_PORTS}`],
		[`-D OUTPUT ${PORTALS}`, `-D OUTPUT ${NODE_PORTS}`],
	],
	[
		"somebody appended a rule behind",
		[`-A OUTPUT ${PORTALS}`, `-A OUTPUT ${NODE_PORTS}`, other],
		[`-D OUTPUT ${PORTALS}`, `-D OUTPUT ${NODE_PORTS}`],
	],
	[
		"one lost its comment",
		["-A OUTPUT -j KUBE-PORTALS-HOST", `-A OUTPUT ${NODE_PORTS}`],
		["-D OUTPUT -j KUBE-PORTALS-HOST", `-D OUTPUT ${NODE_PORTS}`],
	],
	[
		"one has a match that is not ours",
		[`-A OUTPUT -s 10.0.0.0/8 ${PORTALS}`, `-A OUTPUT ${NODE_PORTS}`],
		[`-D OUTPUT -s 10.0.0.0/8 ${PORTALS}`, `-D OUTPUT ${NODE_PORTS}`],
	],
])("jumpRepairs() when %s", (_, output, deletions) => {
	expect(jumpRepairs("nat", nat(...output))).toEqual([
		...deletions,
		`-I OUTPUT 1 ${PORTALS}`,
		`-A OUTPUT ${NODE_PORTS}`,
	]);
	expect(jumpProblems("nat", nat(...output))).not.toEqual([]);
});

it("a jump is known whatever the place of its comment", () => {
	const comment = /-m comment --comment "[^"]*"/.exec(NODE_PORTS)?.[0] ?? "";
	const moved = `${comment} ${NODE_PORTS.replace(`${comment} `, "")}`;

	expect(jumpRepairs("nat", nat(`-A OUTPUT ${PORTALS}`, `-A OUTPUT ${moved}`))).toEqual([]);
});

it("jumpProblems() names what is lost, doubled or out of place", () => {
	expect(jumpProblems("nat", nat(`-A OUTPUT ${PORTALS}`, `-A OUTPUT ${PORTALS}`))).toEqual([
		"nat OUTPUT: jump to KUBE-PORTALS-HOST is doubled",
		"nat OUTPUT: jump to KUBE-NODEPORT-HOST is missing",
	]);
	expect(
		jumpProblems("nat", nat(other, `-A OUTPUT ${PORTALS}`, `-A OUTPUT ${NODE_PORTS}`)),
	).toEqual(["nat OUTPUT: our jumps are not in their place"]);
});

it("rules of other people are neither deleted nor taken for ours", () => {
	const theirs = "-A OUTPUT -s 10.0.0.9/32 -p tcp -j KUBE-PORTALS-HOST";
	const inTheirChain = "-A MY-CHAIN -g KUBE-PORTALS-HOST";
	const named = '-A OUTPUT -m comment --comment "not -j KUBE-PORTALS-HOST" -j ACCEPT';
	const saved = nat(`-A OUTPUT ${PORTALS}`, theirs, inTheirChain, named, `-A OUTPUT ${NODE_PORTS}`);

	expect(jumpRepairs("nat", saved)).toEqual([]);
	expect(foreignReferences("nat", saved)).toEqual([theirs, inTheirChain]);
	expect(jumpDeletions("nat", saved)).toEqual(
		[...arrivals, `-A OUTPUT ${PORTALS}`, `-A OUTPUT ${NODE_PORTS}`].map((rule) =>
			rule.replace("-A", "-D"),
		),
	);
});

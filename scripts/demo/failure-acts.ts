import { tally } from "../../test/kit/agent.ts";
import type { LogLine } from "../../test/kit/daemon-process.ts";
import { describe, names, type Story } from "./acts.ts";
import {
	CART,
	endpointAgent,
	type Reply,
	request,
	type Setting,
	startEndpoint,
	statusOf,
	WEB,
} from "./setting.ts";
import { paint, paintEndpoint, type Stage } from "./stage.ts";

const REQUESTS = 300;
const KILL_AFTER = 100;
/** Answers shown on each side of the kill. */
const AROUND = 6;
/** The first avoidance of a failed endpoint lasts a second, the next ones twice as long each. */
const RETURN_TIMEOUT_MS = 15_000;

export async function showKill(stage: Stage, setting: Setting, story: Story): Promise<void> {
	const victim = story.cartEndpoint;
	stage.scene("An endpoint dies, and nobody notices");
	stage.tell(`The client sends ${REQUESTS} requests to "web", one after the other. In between,
		${victim}'s process gets SIGKILL. The EndpointSlice goes on to name it, as in the seconds before a cluster
		notices; a proxy in the kernel would go on sending every third client there.`);
	const { before, after } = await requestAcrossKill(setting, victim);
	story.webRequests += before.length + after.length;
	const row = (replies: readonly Reply[]) => names(replies).map(paintEndpoint).join(" ");
	const killed = paint(["bold", "red"], `[${victim} killed]`);
	stage.show(`… ${row(before.slice(-AROUND))} ${killed} ${row(after.slice(0, 2 * AROUND))} …`);
	const all = [...before, ...after];
	const failed = all.filter(({ error }) => error !== undefined);
	stage.claim(
		`${all.length - failed.length} of ${REQUESTS} requests were answered: ${describe(tally(all))}`,
		failed.length === 0 && all.length === REQUESTS,
		failed,
	);
	const later = tally(after);
	stage.claim(
		`after its death: ${describe(later)}; both others take part, ${victim} does not`,
		later[victim] === undefined && Object.keys(later).length === 2,
		later,
	);
	await showCartMoves(stage, setting, victim);
}

/** Kills between two requests: what an endpoint was already busy with, no proxy can save. */
async function requestAcrossKill(
	{ client, lab }: Setting,
	victim: string,
): Promise<{ before: Reply[]; after: Reply[] }> {
	const before: Reply[] = [];
	// Right after its own answer, when it is the turn of others.
	while (before.length < KILL_AFTER || before.at(-1)?.answer !== victim) {
		if (before.length >= REQUESTS / 2) break;
		// oxlint-disable-next-line no-await-in-loop -- one after the other is the point
		before.push(...(await request(client, WEB)));
	}
	await (await endpointAgent(lab, victim)).kill();
	const after = await request(client, WEB, { count: REQUESTS - before.length });
	return { before, after };
}

async function showCartMoves(stage: Stage, { client }: Setting, victim: string): Promise<void> {
	const nine = names(await request(client, CART, { count: 9 }));
	stage.claim(
		`"cart" had the client with ${victim}: it has moved to ${nine[0]} and stays there`,
		nine[0] !== victim && /^ep\d$/.test(nine[0] ?? "") && nine.every((name) => name === nine[0]),
		nine,
	);
}

export async function showLog(stage: Stage, setting: Setting, story: Story): Promise<void> {
	stage.scene("The connection log tells it");
	const records = await webRecords(setting, story.webRequests);
	const retried = records.filter(({ attempts }) => attempts.length > 1);
	stage.tell(`Every connection passes through the daemon, so each leaves one record: who, to whom, after
		which tries, how many bytes, how it ended. The first one that met the dead endpoint, as it was logged:`);
	const [first] = retried;
	if (first !== undefined) stage.show(...inParts(first.line), ...inWords(first));
	stage.claim(
		`${story.webRequests} connections to "web", ${records.length} records`,
		records.length === story.webRequests,
	);
	const victim = `${addressOf(story.cartEndpoint)}:8080`;
	stage.claim(
		"a record shows the refusal, and the next endpoint that took the connection",
		first !== undefined &&
			first.attempts[0]?.endpoint === victim &&
			first.attempts[0].outcome === "refused" &&
			first.attempts.at(-1)?.outcome === "connected" &&
			first.line["endpoint"] !== victim,
		retried.map(({ line }) => line),
	);
	const met = retried.length;
	stage.claim(
		`only ${met} of the ${REQUESTS - KILL_AFTER} or so connections after the kill met the dead endpoint:
      it is remembered as failing and tried last`.replaceAll(/\s+/g, " "),
		met >= 1 && met <= (REQUESTS - KILL_AFTER) / 10,
		met,
	);
}

export async function showReturn(stage: Stage, setting: Setting, story: Story): Promise<void> {
	stage.scene("It comes back");
	const { client, lab } = setting;
	const name = story.cartEndpoint;
	stage.tell(`${name} is started again. Nobody has to tell the daemon: now and then it lets a connection
		try an endpoint that has failed.`);
	await startEndpoint(lab, name);
	const startedAt = performance.now();
	let answers: readonly string[] = [];
	const isBack = async () => answers.includes(name) && !(await isAvoided(setting));
	// oxlint-disable no-await-in-loop -- asks until it is there for every worker, within the limit
	while (!(await isBack()) && performance.now() - startedAt < RETURN_TIMEOUT_MS) {
		answers = names(await request(client, WEB, { count: 3 }));
	}
	// oxlint-enable no-await-in-loop
	const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
	stage.claim(
		`${name} answers again, ${seconds} s after its start`,
		answers.includes(name),
		answers,
	);
	const counts = tally(await request(client, WEB, { count: 90 }));
	stage.claim(
		`90 more requests: ${describe(counts)}`,
		["ep1", "ep2", "ep3"].every((each) => counts[each] === 30),
		counts,
	);
}

/** True while any worker tries an endpoint of "web" last. */
async function isAvoided(setting: Setting): Promise<boolean> {
	const { servicePorts } = await statusOf(setting);
	return servicePorts
		.filter(({ virtualAddresses }) => virtualAddresses.includes(WEB.address))
		.some(({ endpoints }) => endpoints.some(({ state }) => state === "failing"));
}

export async function showStop(stage: Stage, { daemon, lab }: Setting): Promise<void> {
	stage.scene("The end");
	stage.tell(
		"SIGTERM: the daemon takes its rules away, lets connections end, and leaves the node as it was.",
	);
	const { code } = await daemon.stop("SIGTERM", 10_000);
	stage.claim("it ended with status 0", code === 0, String(code));
	const saved = await Promise.all(
		["iptables-save", "ip6tables-save"].map((command) => lab.node.exec(command, [])),
	);
	const left = saved
		.flatMap(({ stdout }) => stdout.split("\n"))
		.filter((line) => /KUBE-/.test(line));
	stage.claim("no rule and no chain of its own is left", left.length === 0, left);
}

interface WebRecord {
	readonly line: LogLine;
	readonly attempts: readonly { readonly endpoint: string; readonly outcome: string }[];
}

/** The records of "web", once as many are there as there were connections, or after two seconds. */
async function webRecords({ daemon }: Setting, wanted: number): Promise<readonly WebRecord[]> {
	const found = () =>
		daemon.logs.filter(({ msg, service }) => msg === "connection" && service === WEB.name);
	await daemon.waitForLog(() => found().length >= wanted, { timeoutMs: 2000 }).catch(() => {});
	return found().map((line) => ({
		line,
		attempts: (line["attempts"] ?? []) as WebRecord["attempts"],
	}));
}

/** The JSON line, broken where it can be read. */
function inParts(line: LogLine): readonly string[] {
	return JSON.stringify(line)
		.replaceAll(/,"(attempts|bytesIn)"/g, ',\n  "$1"')
		.split("\n")
		.map((part) => paint("dim", part));
}

function inWords({ line, attempts }: WebRecord): readonly string[] {
	const tries = attempts.map(({ endpoint, outcome }) => {
		const colour = outcome === "connected" ? "green" : "red";
		return `${endpoint} ${paint(colour, outcome)}`;
	});
	return [`${String(line["client"])} → ${String(line["service"])} → ${tries.join(", then ")}`];
}

function addressOf(endpoint: string): string {
	return `10.2.${endpoint.replace("ep", "")}.2`;
}

import { once } from "node:events";
import { rmSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { AGENT_PROGRAM } from "../../test/kit/agent.ts";
import { DAEMON_PROGRAM } from "../../test/kit/daemon-process.ts";
import { createLab, type Lab } from "../../test/kit/lab.ts";
import { runCommandSync, spawnDetached } from "../../test/kit/lab-command.ts";
import { namespaceNames, removeNamespaces } from "../../test/kit/lab-sweep.ts";
import { EXAMPLES, NAMES, NAMES_PORT, WEB, WEB_PORT } from "./setting.ts";
import { paint, type Stage } from "./stage.ts";

const PREFIX = "kup-demo-";
const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const LOG = `${ROOT}demo-kept.log`;
const READY_TIMEOUT_MS = 20_000;

/** Removes the kept lab with all that runs in it. @returns false when there was none. */
export function takeDown(): boolean {
	const names = namespaceNames().filter((name) => name.startsWith(PREFIX));
	removeNamespaces(names);
	rmSync(LOG, { force: true });
	return names.length > 0;
}

/** Builds a lab that stays when this process ends: servers on the endpoints, the daemon on the node. */
export async function standUp(): Promise<void> {
	takeDown();
	const lab = await createLab({ endpoints: 3, keepAs: PREFIX });
	try {
		for (const { name, role } of lab.endpoints) detach(name, [AGENT_PROGRAM, ...serveArgs(role)]);
		detach(lab.node.name, [DAEMON_PROGRAM, ...DAEMON_ARGS], LOG);
		await ready(lab);
	} catch (error) {
		takeDown();
		throw error;
	}
}

const DAEMON_ARGS = [
	"run",
	`--manifests=${EXAMPLES}`,
	"--hostname-override=node1",
	// The size of the connection tracking table is the whole host's: a show does not set it.
	"--conntrack-max-per-core=0",
	"--log-format=pretty",
	"--log-connections=all",
];

function serveArgs(name: string): readonly string[] {
	const servers = [
		{ protocol: "tcp", mode: "http", name, port: WEB_PORT },
		{ protocol: "udp", mode: "name", name, port: NAMES_PORT },
	];
	return ["serve", JSON.stringify(servers)];
}

/** Starts a program of a namespace that lives on when this process ends. */
function detach(namespace: string, args: readonly string[], log = "/dev/null"): void {
	spawnDetached(["ip", "netns", "exec", namespace, process.execPath, ...args], log);
}

async function ready(lab: Lab): Promise<void> {
	const url = "http://127.0.0.1:10256/readyz";
	const deadline = Date.now() + READY_TIMEOUT_MS;
	const agent = await lab.node.agent();
	while (Date.now() < deadline) {
		// oxlint-disable-next-line no-await-in-loop -- asks until it is ready, within the limit
		const status = await agent.get(url).then(
			(answer) => answer.status,
			() => 0,
		);
		if (status === 200) {
			// The kept lab is for the person: our own helper goes.
			await lab.node.close();
			return;
		}
		// oxlint-disable-next-line no-await-in-loop -- see above
		await sleep(50);
	}
	throw new Error(`The daemon was not ready within ${READY_TIMEOUT_MS} ms; see ${LOG}`);
}

/** scripts/with-lab-rights sets it where the lab lives in namespaces that only this process's children see. */
const { KUP_PRIVATE_LAB } = process.env;

/** Without root the lab cannot outlive this process: keeps it until Ctrl-C. With root returns at once. */
export async function holdIfPrivate(): Promise<void> {
	if (KUP_PRIVATE_LAB === undefined) return;
	console.log("Without root the lab lives as long as this command: Ctrl-C takes it down.");
	const alive = setInterval(() => {}, 60_000);
	await Promise.race(["SIGINT", "SIGTERM"].map((signal) => once(process, signal)));
	clearInterval(alive);
	takeDown();
}

/** Tells how to play with it. */
export function explain(stage: Stage): void {
	const enter =
		KUP_PRIVATE_LAB === undefined
			? ""
			: `nsenter --preserve-credentials --user --mount --target ${process.pid} `;
	const inside = (role: string, command: string) =>
		`${enter}ip netns exec ${PREFIX}${role} ${command}`;
	const main = `${shellWord(process.execPath)} ${shellWord(DAEMON_PROGRAM)}`;
	stage.title("The lab is up");
	stage.tell("Its namespaces are like hosts of their own; these commands run in them:");
	const offer = (what: string, ...commands: readonly string[]) =>
		stage.show(paint("bold", what), ...commands);
	offer("a request from the client (ask again and again)", inside("client", httpCommand()));
	offer(
		"a UDP query",
		inside(
			"client",
			`bash -c 'exec 3<>/dev/udp/${NAMES.address}/${NAMES.port}; echo >&3; timeout 1 head -c 3 <&3; echo'`,
		),
	);
	offer("the log, a line per connection", `tail -f ${shellWord(LOG)}`);
	offer("what the daemon serves", inside("node", `${main} status`));
	offer("connections as they come and go", inside("node", `${main} connections --watch`));
	offer("its packet rules", inside("node", "iptables -t nat -S"));
	offer("kill an endpoint", `kill -9 $(${enter}ip netns pids ${PREFIX}ep2)`);
	offer(
		"and start it again",
		`${inside("ep2", `${shellWord(process.execPath)} ${shellWord(AGENT_PROGRAM)} serve`)} '${serveArgs("ep2")[1]}' &`,
	);
	offer("change a Service: the daemon watches the files", `${shellWord(`${EXAMPLES}web.yaml`)}`);
	if (enter === "") offer("take it all down", `cd ${shellWord(ROOT)} && npm run demo -- --down`);
}

/** curl is not on every machine; bash is. */
function httpCommand(): string {
	if (runCommandSync("sh", ["-c", "command -v curl"]).exitCode === 0) {
		return `curl -s http://${WEB.address}/`;
	}
	return `bash -c 'exec 3<>/dev/tcp/${WEB.address}/${WEB.port}; printf "GET / HTTP/1.0\\r\\n\\r\\n" >&3; tail -n 1 <&3; echo'`;
}

function shellWord(text: string): string {
	return /^[\w./:=-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

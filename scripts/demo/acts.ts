import { tally } from "../../test/kit/agent.ts";
import { CART, NAMES, type Reply, request, type Setting, statusOf, WEB } from "./setting.ts";
import { paint, paintEndpoint, type Stage } from "./stage.ts";

const ENDPOINTS = ["ep1", "ep2", "ep3"];

/** What the demo did, for the acts that look back on it. */
export interface Story {
	/** Connections made to the Service "web" until now. */
	webRequests: number;
	/** The endpoint that the client of the Service "cart" is kept with. */
	cartEndpoint: string;
}

export async function showDaemon(stage: Stage, setting: Setting): Promise<void> {
	stage.scene("The daemon");
	stage.tell(`kube-userproxy runs on the node and reads the Services and EndpointSlices in examples/.
		For each Service port it has opened a proxy port, and will relay what comes there to an endpoint.`);
	const { servicePorts } = await statusOf(setting);
	stage.show(
		...servicePorts.map(({ name, protocol, virtualAddresses, port, proxyPort, endpoints }) => {
			const address = `${virtualAddresses.join(", ")}:${port}/${protocol}`;
			const behind = endpoints.map(({ endpoint }) => endpoint).join(" ");
			return `${name.padEnd(18)} ${address.padEnd(18)} → proxy port ${proxyPort ?? "?"} → ${behind}`;
		}),
	);
	const complete = servicePorts.filter(({ endpoints }) => endpoints.length === 3);
	stage.claim(
		"it is ready and serves three Service ports, each with three endpoints",
		servicePorts.length === 3 && complete.length === 3,
		servicePorts,
	);
	await showRules(stage, setting);
}

async function showRules(stage: Stage, { lab }: Setting): Promise<void> {
	const addresses = await lab.node.ip("-brief", "address");
	stage.claim(
		`the address ${WEB.address} is on no interface of the node`,
		!addresses.includes(WEB.address),
		addresses,
	);
	const { stdout } = await lab.node.exec("iptables-save", ["-t", "nat"]);
	const rules = stdout.split("\n").filter((line) => line.startsWith("-A KUBE-PORTALS-CONTAINER "));
	stage.pause();
	stage.tell("Packets for these addresses are caught by rules in the node's nat table:");
	stage.show(...rules.map((rule) => paint("dim", rule)));
	const caught = [WEB, NAMES, CART].filter(({ address }) =>
		rules.some((rule) => rule.includes(`-d ${address}/32 `)),
	);
	stage.claim("each Service address has its rule", caught.length === 3, rules);
}

export async function showTcp(stage: Stage, { client }: Setting, story: Story): Promise<void> {
	stage.scene("TCP: three endpoints take turns");
	stage.tell(`The client asks the Service's address, nine times, a new connection each time, and each
		endpoint answers with its name.`);
	const nine = await request(client, WEB, { count: 9 });
	showAnswers(stage, `client$ curl http://${WEB.address}/   (nine times)`, nine);
	stage.claim("the endpoints answered strictly in turn", isRotation(names(nine)), names(nine));
	const many = await request(client, WEB, { count: 300, concurrency: 10 });
	const counts = tally(many);
	stage.claim(
		`300 more, ten at a time: ${describe(counts)}`,
		ENDPOINTS.every((name) => counts[name] === 100),
		counts,
	);
	story.webRequests += nine.length + many.length;
}

export async function showUdp(stage: Stage, { client }: Setting): Promise<void> {
	stage.scene("UDP: the same for datagrams");
	stage.tell(`UDP has no connections, so the daemon keeps a flow per client address and port: each new
		socket gets the next endpoint, and one socket stays with one endpoint.`);
	const to = { address: NAMES.address, port: NAMES.port };
	const each = await client.udp({ ...to, count: 9, socketEach: true });
	showAnswers(stage, `client$ a query to ${to.address} port ${to.port}   (nine sockets)`, each);
	stage.claim("nine sockets: the endpoints answered in turn", isRotation(names(each)), names(each));
	const one = await client.udp({ ...to, count: 9 });
	stage.claim(
		`nine queries from one socket: ${one[0]?.answer ?? "nobody"} answered all of them`,
		one.every(({ answer, error }) => error === undefined && answer === one[0]?.answer),
		names(one),
	);
	const asked = `${to.address}:${to.port}`;
	stage.claim(
		`every answer came from the address that was asked, ${asked}`,
		[...each, ...one].every(({ from }) => from === asked),
		[...each, ...one].map(({ from }) => from),
	);
}

export async function showAffinity(stage: Stage, { client }: Setting, story: Story): Promise<void> {
	stage.scene("Session affinity: a client stays with its endpoint");
	stage.tell(`The Service "cart" says sessionAffinity: ClientIP. Its endpoints keep something in their
		memory, and a client has to come back to the same one.`);
	const nine = await request(client, CART, { count: 9 });
	showAnswers(stage, `client$ curl http://${CART.address}/   (nine times)`, nine);
	story.cartEndpoint = nine[0]?.answer ?? "";
	stage.claim(
		`nine connections, one endpoint: ${story.cartEndpoint}`,
		ENDPOINTS.includes(story.cartEndpoint) &&
			names(nine).every((name) => name === story.cartEndpoint),
		names(nine),
	);
}

/** The answers in a row, as they came. */
function showAnswers(stage: Stage, command: string, replies: readonly Reply[]): void {
	stage.show(paint("dim", command), names(replies).map(paintEndpoint).join(" "));
}

/** Who answered each, or the error in their place. */
export function names(replies: readonly Reply[]): readonly string[] {
	return replies.map(({ answer, error }) => error ?? answer);
}

function isRotation(answers: readonly string[]): boolean {
	const [first, second, third] = answers;
	return (
		ENDPOINTS.every((name) => [first, second, third].includes(name)) &&
		answers.every((name, index) => name === [first, second, third][index % 3])
	);
}

export function describe(counts: Readonly<Record<string, number>>): string {
	return Object.entries(counts)
		.map(([name, count]) => `${name} ${count}`)
		.join(", ");
}

import { connect, createServer } from "node:net";
import { runCommandSync } from "./lab-command.ts";

/**
 * The least that behaves like the daemon, to test the kit itself with: relays one TCP address to one
 * endpoint with one REDIRECT rule, and logs as the daemon does. `lab-stand-in.ts 10.96.0.10 80 10.2.1.2 8080`
 */
const [address = "", port = "", endpoint = "", endpointPort = ""] = process.argv.slice(2);

const log = (msg: string, fields: object = {}) => {
	process.stdout.write(`${JSON.stringify({ level: "info", ...fields, msg })}\n`);
};
const nat = (action: string, proxyPort: number) =>
	runCommandSync("iptables", [
		..."-w 5 -t nat".split(" "),
		action,
		...`PREROUTING -d ${address} -p tcp --dport ${port}`.split(" "),
		...`-j REDIRECT --to-ports ${proxyPort}`.split(" "),
	]);

const server = createServer((client) => {
	const upstream = connect(Number(endpointPort), endpoint);
	client.on("error", () => upstream.destroy());
	upstream.on("error", () => client.destroy());
	client.pipe(upstream).pipe(client);
	log("connection", { client: client.remoteAddress });
});
server.on("error", (error) => {
	throw error;
});
server.listen(0, "0.0.0.0", () => {
	const bound = server.address();
	const proxyPort = bound !== null && typeof bound === "object" ? bound.port : 0;
	nat("-A", proxyPort);
	process.once("SIGTERM", () => {
		nat("-D", proxyPort);
		log("stopped");
		process.exit(0);
	});
	process.stdout.write("not json\n");
	log("ready", { proxyPort });
});

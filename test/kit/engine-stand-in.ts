import type { EngineOptions } from "../../src/proxies/engine-options.ts";
import { createStreamEngine } from "../../src/proxies/stream/stream-engine.ts";
import { createSyscallEngine } from "../../src/proxies/syscall/syscall-engine.ts";
import { silentLog } from "../../src/shared/log.ts";
import { anEndpointAt, aServicePort } from "../unit/proxies/builders.ts";

/**
 * The engine alone, for tests of what only the kernel of a lab can do to its sockets: one ServicePort
 * per endpoint, no packet rules; clients dial the proxy ports. Logs "ready" with the ports in order,
 * and each record as the daemon does. `engine-stand-in.ts syscall 10.2.1.2:8080 10.2.2.2:8080`
 */
const log = (msg: string, fields: object) => {
	process.stdout.write(`${JSON.stringify({ level: "info", ...fields, msg })}\n`);
};

const [name, ...endpoints] = process.argv.slice(2);

const options: EngineOptions = {
	bindAddress: undefined,
	portRange: undefined,
	dialTimeoutsMs: [2000],
	halfCloseIdleMs: 60_000,
	udp: { idleMs: 10_000, firstAnswerMs: 10_000, maxFlows: 10 },
	preferredPorts: new Map(),
	hooks: {
		onConnectionStart: () => {},
		onConnectionEnd: (record) => log("connection", record),
		onCounted: () => {},
	},
	log: silentLog,
};
const engine =
	name === "stream"
		? createStreamEngine({ ...options, udpAddress: () => undefined })
		: createSyscallEngine(options);

const { bindings, problems } = await engine.reconcile(
	endpoints.map((endpoint) => {
		const [host = "", port = ""] = endpoint.split(":");
		return aServicePort({ name: endpoint, endpoints: [anEndpointAt(host, Number(port))] });
	}),
);
for (const { error } of problems) throw error;
log("ready", { proxyPorts: bindings.map(({ proxyPort }) => proxyPort) });

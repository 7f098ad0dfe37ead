import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { startDaemon } from "../../test/kit/daemon-process.ts";
import type { Measurement } from "./measurements.ts";
import { serviceManifest } from "./service-manifest.ts";
import type { Carried, Setting, Target } from "./setting.ts";
import { startPrograms } from "./start-programs.ts";

/** What is measured: a proxy between the client and the endpoint, or none. */
export interface Contender {
	readonly name: string;
	/** False: only where `--contenders` names it. */
	readonly isDefault: boolean;
	/** True: an engine of the daemon, which is compared with all others. */
	readonly isOurs: boolean;
	readonly carries: readonly Carried[];
	/** Whether its processes are known, for their use of processor and memory. */
	readonly hasProcesses: boolean;
	/** Only these measurements, of all that it could carry. */
	readonly only?: readonly string[];
	/** Starts it and waits until clients are served. */
	start(setting: Setting): Promise<Running>;
}

export interface Running {
	readonly target: Target;
	/** Of its processes; none: not known. */
	readonly pids: readonly number[];
	stop(): Promise<void>;
}

/** Whether a measurement says something of a contender. */
export function isMeasured(contender: Contender, measurement: Measurement): boolean {
	return (
		contender.carries.includes(measurement.carries) &&
		(contender.hasProcesses || !measurement.isOfProcesses) &&
		(contender.only?.includes(measurement.name) ?? true)
	);
}

const CLUSTER_IP = "10.96.0.10";
const SERVICE_PORTS = { http: 80, bulk: 5_201, udp: 53 } as const;
/** A daemon starts in a second; much more means that it does not work. */
const READY_MS = 20_000;
const NOTHING_TO_STOP = () => Promise.resolve();

/** No proxy at all. */
const DIRECT: Contender = {
	name: "direct",
	isDefault: true,
	isOurs: false,
	carries: ["http", "bulk", "udp"],
	hasProcesses: false,
	start: ({ endpoint }) => Promise.resolve({ target: endpoint, pids: [], stop: NOTHING_TO_STOP }),
};

const HAPROXY: Contender = {
	name: "haproxy",
	isDefault: true,
	isOurs: false,
	carries: ["http", "bulk"],
	hasProcesses: true,
	start(setting) {
		const { address, ports } = setting.endpoint;
		// One connection in four may splice at a time by default, and each then needs a pipe's descriptors, too.
		const config = `global
  nbthread 1
  maxconn 9000
  maxpipes 100
defaults
  mode tcp
  option splice-auto
  timeout connect 5s
  timeout client 600s
  timeout server 600s
listen http
  bind :7080 backlog 4096
  server s ${address}:${ports.http}
listen bulk
  bind :7201
  server s ${address}:${ports.bulk}
`;
		const file = configFile(setting, "haproxy.conf", config);
		return startOnNode(setting, [["haproxy", "-db", "-f", file]], { http: 7_080, bulk: 7_201 });
	},
};

const NGINX: Contender = {
	name: "nginx",
	isDefault: true,
	isOurs: false,
	carries: ["http", "bulk", "udp"],
	hasProcesses: true,
	start(setting) {
		const { address, ports } = setting.endpoint;
		const config = `load_module /usr/lib/nginx/modules/ngx_stream_module.so;
daemon off; master_process off; pid ${setting.folder}/peer-nginx.pid; error_log stderr emerg;
events { worker_connections 20000; }
stream {
	server { listen 6080 backlog=4096; proxy_pass ${address}:${ports.http}; }
	server { listen 6201; proxy_pass ${address}:${ports.bulk}; }
	server { listen 6900 udp; proxy_pass ${address}:${ports.udp}; proxy_timeout 30s; }
}
`;
		const file = configFile(setting, "nginx.conf", config);
		const listens = { http: 6_080, bulk: 6_201, udp: 6_900 };
		return startOnNode(setting, [["nginx", "-e", "stderr", "-c", file]], listens);
	},
};

/** A process for each connection: for reference only, and its processor time is spread over all of them. */
const SOCAT: Contender = {
	name: "socat",
	isDefault: true,
	isOurs: false,
	carries: ["http", "bulk"],
	hasProcesses: false,
	only: ["bulk", "keepalive", "new"],
	async start(setting) {
		const { address, ports } = setting.endpoint;
		const listens = { http: 5_080, bulk: 5_202 };
		const relay = (port: number, to: number) => [
			"socat",
			`TCP-LISTEN:${port},fork,reuseaddr,backlog=4096`,
			`TCP:${address}:${to}`,
		];
		const commands = [relay(listens.http, ports.http), relay(listens.bulk, ports.bulk)];
		return { ...(await startOnNode(setting, commands, listens)), pids: [] };
	},
};

/** The daemon with its real packet rules, and with a user's flags but for those that are given. */
function daemonWith(name: string, flags: readonly string[], isDefault = true): Contender {
	return {
		name,
		isDefault,
		isOurs: true,
		carries: ["http", "bulk", "udp"],
		hasProcesses: true,
		async start(setting) {
			const manifest = serviceManifest(CLUSTER_IP, SERVICE_PORTS, setting.endpoint);
			const file = configFile(setting, "service.json", JSON.stringify(manifest));
			const daemon = startDaemon({
				in: setting.lab.node,
				// The test kit logs each connection, which is not what a daemon does by default.
				flags: [`--manifests=${file}`, "--log-connections=off", "--log-level=info", ...flags],
			});
			const stop = async () => void (await daemon.stop());
			try {
				await daemon.ready(READY_MS);
			} catch (error) {
				await daemon.kill9();
				throw error;
			}
			return {
				target: { address: CLUSTER_IP, ports: SERVICE_PORTS },
				pids: [daemon.pid],
				stop,
			};
		},
	};
}

/** In the order of the tables. */
export const CONTENDERS: readonly Contender[] = [
	DIRECT,
	HAPROXY,
	NGINX,
	SOCAT,
	daemonWith("stream", ["--relay=stream"]),
	// One worker, since the peers have one thread.
	daemonWith("syscall", ["--relay=syscall", "--workers=1"]),
	daemonWith("syscall-cores", ["--relay=syscall"], false),
];

/** Programs of the node that listen on these ports of its address. */
async function startOnNode(
	{ lab: { node } }: Setting,
	commands: readonly (readonly string[])[],
	ports: Target["ports"],
): Promise<Running> {
	const programs = await startPrograms(node, commands, Object.values(ports));
	return { target: { address: node.ipv4, ports }, ...programs };
}

function configFile({ folder }: Setting, name: string, text: string): string {
	const file = join(folder, name);
	writeFileSync(file, text);
	return file;
}

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createLab, type Lab } from "../../test/kit/lab.ts";
import type { LabNamespace } from "../../test/kit/lab-namespace.ts";
import { benchProgram } from "./programs.ts";
import { startPrograms } from "./start-programs.ts";

/** What may go through a proxy: HTTP requests, iperf3's streams, datagrams. */
export type Carried = "http" | "bulk" | "udp";

/** Where a client finds what answers. */
export interface Target {
	readonly address: string;
	/** What it does not carry has none. */
	readonly ports: Readonly<Partial<Record<Carried, number>>>;
}

/** The lab with its endpoint's servers, kernel settings, and a folder for files. */
export interface Setting {
	readonly lab: Lab;
	readonly folder: string;
	/** The endpoint itself, which carries all. */
	readonly endpoint: {
		readonly address: string;
		readonly ports: Readonly<Record<Carried, number>>;
	};
	close(): Promise<void>;
}

const ENDPOINT_PORTS = { http: 8_080, bulk: 5_201, udp: 9_000 } as const;

/** What one request is answered with: a small page. */
const PAGE = "hello ".repeat(10);

/** @param isTracked whether the node has the rules by which every node of a cluster tracks connections. */
export async function createSetting({ isTracked }: { isTracked: boolean }): Promise<Setting> {
	const lab = await createLab({ endpoints: 1 });
	const folder = mkdtempSync(join(tmpdir(), "kup-bench-"));
	const removeFolder = () => rmSync(folder, { recursive: true, force: true });
	process.on("exit", removeFolder);
	const close = async (): Promise<void> => {
		await lab.close();
		removeFolder();
		process.off("exit", removeFolder);
	};
	try {
		const [endpoint] = lab.endpoints;
		if (endpoint === undefined) throw new Error("Cannot measure in a lab without an endpoint");
		await setKernel(lab);
		if (isTracked) await trackConnections(lab.node);
		await startEndpoint(endpoint, folder);
		return { lab, folder, endpoint: { address: endpoint.ipv4, ports: ENDPOINT_PORTS }, close };
	} catch (error) {
		await close();
		throw error;
	}
}

/** Else the search for a free port, of a client or a proxy, is what is measured. */
async function setKernel({ client, node }: Lab): Promise<void> {
	const values = {
		"net.ipv4.tcp_tw_reuse": "1",
		"net.ipv4.ip_local_port_range": "1024 65000",
	};
	await client.sysctl(values);
	await node.sysctl(values);
}

/**
 * Rules that match nothing here, of the kind that every network plug-in makes: with them the kernel tracks every
 * connection of the node, whichever proxy it goes through, and those that go through none.
 */
async function trackConnections(node: LabNamespace): Promise<void> {
	const unused = "10.244.0.0/16";
	const masquerade = ["-s", unused, "!", "-d", unused, "-j", "MASQUERADE"];
	const known = ["-m", "conntrack", "--ctstate", "RELATED,ESTABLISHED", "-j", "ACCEPT"];
	await node.exec("iptables", ["-w", "5", "-t", "nat", "-A", "POSTROUTING", ...masquerade]);
	await node.exec("iptables", ["-w", "5", "-A", "FORWARD", ...known]);
}

async function startEndpoint(endpoint: LabNamespace, folder: string): Promise<void> {
	const config = join(folder, "endpoint-nginx.conf");
	// In a user namespace only root is somebody, and Debian's folders for temporary files are not its own.
	const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
		.map((what) => `${what}_temp_path ${folder}/${what};`)
		.join(" ");
	writeFileSync(
		config,
		`user root root; daemon off; master_process off; pid ${folder}/endpoint-nginx.pid; error_log stderr emerg;
events { worker_connections 20000; }
http {
	access_log off; keepalive_requests 1000000000; keepalive_timeout 600; ${temporary}
	server { listen ${ENDPOINT_PORTS.http} backlog=4096; location / { return 200 "${PAGE}"; } }
}
`,
	);
	await startPrograms(
		endpoint,
		[
			["nginx", "-e", "stderr", "-c", config],
			["iperf3", "--server", `--port=${ENDPOINT_PORTS.bulk}`],
			[process.execPath, benchProgram("udp-echo"), endpoint.ipv4, `${ENDPOINT_PORTS.udp}`],
		],
		Object.values(ENDPOINT_PORTS),
	);
}

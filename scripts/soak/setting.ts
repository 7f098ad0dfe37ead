import { mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DAEMON_PROGRAM, type DaemonProcess, startDaemon } from "../../test/kit/daemon-process.ts";
import { createLab, type Lab } from "../../test/kit/lab.ts";
import { DaemonView } from "./daemon-view.ts";
import { Helper } from "./helper.ts";
import { allObjects, CUTTING_PORT, ECHO_PORT, UDP_ECHO_PORT } from "./services.ts";
import { WORKERS } from "./verdict.ts";

const INSPECTOR_PORT = 9229;

/** Short, so that flows come and go all the time and none is left soon after the end. */
const UDP_IDLE = "5s";
/** What an engine finds by this alone must be over before the end, too. */
const HALF_CLOSE_IDLE = "20s";

/** Where a soak takes place: a lab with three endpoints that serve, and the daemon on its node. */
export interface Setting {
	readonly lab: Lab;
	readonly daemon: DaemonProcess;
	readonly view: DaemonView;
	/** Replaces all manifests in one step. */
	write(objects: readonly unknown[]): Promise<void>;
	close(): Promise<void>;
}

export async function createSetting(engine: string): Promise<Setting> {
	const folder = await mkdtemp(join(tmpdir(), "kup-soak-"));
	const lab = await createLab({ endpoints: 3 });
	const write = async (objects: readonly unknown[]): Promise<void> => {
		const path = join(folder, "services.json");
		const list = { apiVersion: "v1", kind: "List", items: objects };
		await writeFile(`${path}.new`, JSON.stringify(list));
		await rename(`${path}.new`, path);
	};
	const close = async (): Promise<void> => {
		await lab.close();
		await rm(folder, { recursive: true, force: true });
	};
	try {
		await Promise.all(lab.endpoints.map(async (each) => await serve(each)));
		await write(allObjects());
		const daemon = startDaemon({ in: lab.node, flags: [], program: program(folder, engine) });
		await daemon.ready();
		const inspector = new Helper(lab.node, "look-inside.ts", String(INSPECTOR_PORT));
		return { lab, daemon, view: new DaemonView(daemon, inspector), write, close };
	} catch (error) {
		await close();
		throw error;
	}
}

async function serve(endpoint: Lab["endpoints"][number]): Promise<void> {
	const agent = await endpoint.agent();
	const name = endpoint.role;
	await agent.serveTcp({ mode: "echo", name, port: ECHO_PORT });
	await agent.serveTcp({ mode: "reset", name, port: CUTTING_PORT });
	await agent.serveUdp({ mode: "echo", name, port: UDP_ECHO_PORT });
}

function program(folder: string, engine: string): readonly string[] {
	return [
		`--inspect=127.0.0.1:${INSPECTOR_PORT}`,
		"--expose-gc",
		DAEMON_PROGRAM,
		"run",
		`--manifests=${folder}`,
		`--relay=${engine}`,
		...(engine === "syscall" ? [`--workers=${WORKERS}`] : []),
		"--hostname-override=node1",
		// The size of the connection tracking table is the whole host's.
		"--conntrack-max-per-core=0",
		"--iptables-min-sync-period=100ms",
		`--udp-timeout=${UDP_IDLE}`,
		`--udp-first-answer-timeout=${UDP_IDLE}`,
		`--half-close-timeout=${HALF_CLOSE_IDLE}`,
		"--log-format=json",
		"--log-level=info",
	];
}

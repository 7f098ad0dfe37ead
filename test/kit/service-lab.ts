import { mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Agent, RemoteServer } from "./agent.ts";
import type { ServeTcp, ServeUdp } from "./agent-protocol.ts";
import { type DaemonProcess, startDaemon } from "./daemon-process.ts";
import type { Lab } from "./lab.ts";
import type { LabNamespace } from "./lab-namespace.ts";
import { rawService, rawSlice } from "./raw-objects.ts";
import { giveBack, takeLab } from "./spare-labs.ts";

/** A lab with a folder of manifests and the daemon on its node: what most tests of the whole need. */
export interface ServiceLab extends AsyncDisposable {
	readonly lab: Lab;
	/** The folder that the daemon watches. */
	readonly folder: string;
	readonly client: Agent;
	/** Starts the daemon on the node and waits until it is ready, unless told not to. */
	start(flags?: readonly string[], options?: StartOptions): Promise<DaemonProcess>;
	/** Writes objects to a file of the folder in one step: a List (.json), or documents (.yaml). */
	write(file: string, objects: readonly unknown[]): Promise<void>;
	/** Starts a TCP server named after the endpoint ("ep1") in each endpoint namespace. */
	serveTcp(options: Omit<ServeTcp, "name">): Promise<RemoteServer[]>;
	serveUdp(options: Omit<ServeUdp, "name">): Promise<RemoteServer[]>;
	close(): Promise<void>;
}

interface StartOptions {
	readonly in?: LabNamespace;
	readonly isReady?: boolean;
	readonly env?: Readonly<Record<string, string>>;
	readonly descriptorLimit?: number;
}

/** A lab as new; {@link takeLab} says how it may have been used before. */
export async function createServiceLab(options: { endpoints?: number } = {}): Promise<ServiceLab> {
	const lab = await takeLab(options.endpoints ?? 3);
	const folder = await mkdtemp(join(tmpdir(), "kup-manifests-"));
	const client = await lab.client.agent();
	const onEach = async <T>(serve: (agent: Agent, name: string) => Promise<T>): Promise<T[]> =>
		await Promise.all(
			lab.endpoints.map(async (endpoint) => await serve(await endpoint.agent(), endpoint.role)),
		);
	const close = async (): Promise<void> => {
		await giveBack(lab);
		await rm(folder, { recursive: true, force: true });
	};
	return {
		lab,
		folder,
		client,
		async start(flags = [], { in: where = lab.node, isReady = true, ...process } = {}) {
			const daemon = startDaemon({
				...process,
				in: where,
				flags: [`--manifests=${folder}`, "--iptables-min-sync-period=100ms", ...flags],
			});
			if (isReady) await daemon.ready();
			return daemon;
		},
		async write(file, objects) {
			const path = join(folder, file);
			const text = file.endsWith(".json")
				? JSON.stringify({ apiVersion: "v1", kind: "List", items: objects })
				: objects.map((object) => JSON.stringify(object)).join("\n---\n");
			await writeFile(`${path}.new`, text);
			await rename(`${path}.new`, path);
		},
		serveTcp: (serve) => onEach((agent, name) => agent.serveTcp({ ...serve, name })),
		serveUdp: (serve) => onEach((agent, name) => agent.serveUdp({ ...serve, name })),
		close,
		[Symbol.asyncDispose]: close,
	};
}

export interface LabServiceOptions {
	readonly name: string;
	/** Last part of 10.96.0.0/16 and fd10:96::/112: 10 is 10.96.0.10 and fd10:96::a. */
	readonly number: number;
	readonly protocol?: "TCP" | "UDP";
	readonly port?: number;
	readonly targetPort?: number;
	/** 1 is ep1; default all three. */
	readonly endpoints?: readonly number[];
	readonly families?: readonly ("ipv4" | "ipv6")[];
	readonly spec?: Record<string, unknown>;
}

/** A Service of the lab's address plan, with its EndpointSlices. */
export function labService(options: LabServiceOptions): unknown[] {
	const { name, number, protocol = "TCP", port = 80, targetPort = 8080 } = options;
	const { endpoints = [1, 2, 3], families = ["ipv4"], spec = {} } = options;
	const clusterIps = families.map((family) => clusterIp(number, family));
	return [
		rawService({
			name,
			clusterIps,
			ports: [{ name: "p", protocol, port }],
			spec,
		}),
		...families.map((family) =>
			rawSlice({
				serviceName: name,
				name: `${name}-${family}`,
				addressType: family === "ipv4" ? "IPv4" : "IPv6",
				ports: [{ name: "p", protocol, port: targetPort }],
				endpoints: endpoints.map((index) =>
					family === "ipv4" ? `10.2.${index}.2` : `fd10:2:${index}::2`,
				),
			}),
		),
	];
}

export function clusterIp(number: number, family: "ipv4" | "ipv6" = "ipv4"): string {
	return family === "ipv4" ? `10.96.0.${number}` : `fd10:96::${number.toString(16)}`;
}

/** Our chains and jumps, and whatever else is in the tables: "iptables-save" lines without counters. */
export async function savedRules(namespace: LabNamespace, variant = "nft"): Promise<string[]> {
	const texts = await Promise.all(
		["iptables", "ip6tables"].map(
			async (family) => (await namespace.exec(`${family}-${variant}-save`, [])).stdout,
		),
	);
	return texts.flatMap((text) => text.split("\n").filter((line) => line.startsWith("-A ")));
}

/** Polls until the check passes; fails with its last error after `timeoutMs`. */
export async function eventually<T>(check: () => Promise<T>, timeoutMs = 20_000): Promise<T> {
	const deadline = performance.now() + timeoutMs;
	for (;;) {
		try {
			return await check();
		} catch (error) {
			if (performance.now() > deadline) throw error;
			await new Promise((resolve) => setTimeout(resolve, 50));
		}
	}
}

import { randomBytes } from "node:crypto";
import { mkdirSync, readdirSync, readlinkSync, renameSync, rmSync } from "node:fs";
import { connect, createServer, type Server } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { describeError, errorCode, UserProxyError } from "../shared/errors.ts";
import type { Log } from "../shared/log.ts";

/** Root's alone: nobody else can pretend to be a daemon and keep the real one from starting. */
const FOLDER = "/run/kube-userproxy";

/** For a predecessor that is about to end; one that drains connections takes longer. */
const WAIT_MS = 5_000;
const RETRY_MS = 200;

/** Two daemons would replace each other's rules for ever. */
export class NodeLockedError extends UserProxyError {
	readonly code = "NODE_LOCKED";
	readonly retriable = true;

	constructor(pid: number) {
		super(
			`Cannot keep packet rules on this node: another kube-userproxy (pid ${pid}) runs on it, and the two would rewrite each other's. Stop that one first, or start this one with --rules none`,
		);
	}
}

export interface NodeLock {
	/** Idempotent. The kernel does the same when the process dies, however it dies. */
	release(): void;
}

/** For a daemon that keeps no rules. */
export const NO_LOCK: NodeLock = { release: () => {} };

/** Where to look; the defaults are this process's. */
export interface NodeLockPlace {
	readonly folder?: string;
	/** Rules are per network namespace, and so is the lock. */
	readonly networkNamespace?: string;
}

export interface NodeLockOptions extends NodeLockPlace {
	readonly log: Log;
	/** Aborted when it is not wanted any more. */
	readonly signal: AbortSignal;
	readonly waitMs?: number;
}

/**
 * Makes sure that no other daemon keeps rules in this network namespace; waits some seconds for one
 * that is about to end.
 *
 * Each daemon shows itself by a socket in the folder, named after namespace and pid, that it listens on;
 * a socket where nobody listens any more is swept. Whoever has shown itself looks for others, and of two
 * that see each other the one whose name comes later steps back: nobody enters who has not looked since
 * it could be seen (docs/decisions/0040).
 *
 * @returns undefined when the signal came first. Where the folder cannot be used that is logged, and
 * the lock given all the same: a guard against a mistake must not stop the service.
 * @throws {NodeLockedError}
 */
export async function takeNodeLock(options: NodeLockOptions): Promise<NodeLock | undefined> {
	const { log } = options;
	try {
		return await take(placeOf(options), options);
	} catch (error) {
		if (error instanceof NodeLockedError) throw error;
		log.warn({ error: describeError(error) }, "cannot notice a second kube-userproxy on this node");
		return NO_LOCK;
	}
}

/** The pid of a daemon that keeps rules in this network namespace; undefined: none that can be seen. */
export async function findNodeLockHolder(place: NodeLockPlace = {}): Promise<number | undefined> {
	try {
		const [holder] = await findSights(placeOf(place));
		return holder?.pid;
	} catch {
		return undefined;
	}
}

type Place = Required<NodeLockPlace>;

function placeOf({ folder = FOLDER, networkNamespace }: NodeLockPlace): Place {
	return { folder, networkNamespace: networkNamespace ?? ownNamespace() };
}

/** "4026531840": its inode, out of "net:[4026531840]". */
function ownNamespace(): string {
	return readlinkSync("/proc/self/ns/net").replaceAll(/\D/g, "");
}

async function take(place: Place, options: NodeLockOptions): Promise<NodeLock | undefined> {
	mkdirSync(place.folder, { recursive: true, mode: 0o700 });
	const wait = new Wait(options);
	let own: Beacon | undefined;
	for (;;) {
		// oxlint-disable-next-line no-await-in-loop -- each turn looks anew
		const others = await findOthers(place, own);
		if (others[0] === undefined) {
			if (own !== undefined) return own;
			// oxlint-disable-next-line no-await-in-loop -- before the next look
			own = await Beacon.light(place);
		} else if (own?.isBehind(others) === true) {
			own.release();
			own = undefined;
			// oxlint-disable-next-line no-await-in-loop -- between two turns
		} else if (!(await wait.forEndOf(others[0], own))) return undefined;
	}
}

/** The wait for another one, of which one log line tells. */
class Wait {
	readonly #options: NodeLockOptions;
	readonly #waitMs: number;
	readonly #giveUpAtMs: number;
	#isTold: boolean = false;

	constructor(options: NodeLockOptions) {
		this.#options = options;
		this.#waitMs = options.waitMs ?? WAIT_MS;
		this.#giveUpAtMs = performance.now() + this.#waitMs;
	}

	/**
	 * True when it is time for another look, false when the lock is not wanted any more.
	 *
	 * @throws {NodeLockedError} when it has taken too long.
	 */
	async forEndOf({ pid }: Sight, own: Beacon | undefined): Promise<boolean> {
		const { log, signal } = this.#options;
		const isLate = performance.now() >= this.#giveUpAtMs;
		if (signal.aborted || isLate) own?.release();
		if (signal.aborted) return false;
		if (isLate) throw new NodeLockedError(pid);
		if (!this.#isTold) {
			log.info({ pid, waitMs: this.#waitMs }, "waiting for another kube-userproxy to end");
		}
		this.#isTold = true;
		await delay(RETRY_MS, undefined, { signal }).catch(() => {});
		return true;
	}
}

async function findOthers(place: Place, own: Beacon | undefined): Promise<readonly Sight[]> {
	return (await findSights(place)).filter(({ name }) => name !== own?.name);
}

/** A daemon that can be seen: NAMESPACE-PID-RANDOM.sock. */
interface Sight {
	readonly name: string;
	readonly pid: number;
}

const SIGHT = /^(\d+)-(\d+)-[0-9a-f]+\.sock$/;

/** The living ones of a network namespace. Sweeps what dead ones of any namespace have left. */
async function findSights({ folder, networkNamespace }: Place): Promise<readonly Sight[]> {
	const sights: Sight[] = [];
	for (const name of readdirSync(folder)) {
		const [, namespace, pid] = SIGHT.exec(name) ?? [];
		if (pid === undefined) continue;
		const path = join(folder, name);
		// oxlint-disable-next-line no-await-in-loop -- hardly ever more than one
		if (!(await isListening(path))) rmSync(path, { force: true });
		else if (namespace === networkNamespace) sights.push({ name, pid: Number(pid) });
	}
	return sights;
}

/** The kernel answers at once. Whatever else goes wrong (a full queue), somebody is there. */
function isListening(path: string): Promise<boolean> {
	return new Promise((resolve) => {
		const socket = connect(path);
		socket.once("connect", () => {
			socket.destroy();
			resolve(true);
		});
		socket.once("error", (error) => {
			const code = errorCode(error);
			resolve(code !== "ECONNREFUSED" && code !== "ENOENT");
		});
	});
}

/** The socket by which this process can be seen. */
class Beacon implements NodeLock {
	readonly name: string;
	readonly #path: string;
	readonly #server: Server;

	private constructor(name: string, path: string, server: Server) {
		this.name = name;
		this.#path = path;
		this.#server = server;
	}

	static async light({ folder, networkNamespace }: Place): Promise<Beacon> {
		const random = randomBytes(4).toString("hex");
		const name = `${networkNamespace}-${process.pid}-${random}.sock`;
		const path = join(folder, name);
		// Nobody has anything to say here.
		const server = createServer((socket) => socket.destroy()).unref();
		const { promise, resolve, reject } = Promise.withResolvers<void>();
		server.once("error", reject).listen(`${path}.new`, resolve);
		await promise;
		// Under its name only now: between bind and listen it would have been swept.
		renameSync(`${path}.new`, path);
		return new Beacon(name, path, server);
	}

	/** Of two that see each other, the one whose name comes later has to step back. */
	isBehind(others: readonly Sight[]): boolean {
		return others.some(({ name }) => name < this.name);
	}

	release(): void {
		rmSync(this.#path, { force: true });
		this.#server.close();
	}
}

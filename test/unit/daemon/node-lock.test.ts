import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test as it, vi } from "vitest";
import {
	findNodeLockHolder,
	type NodeLock,
	type NodeLockOptions,
	takeNodeLock,
} from "../../../src/daemon/node-lock.ts";
import { aCapturedLog } from "../observe/captured-log.ts";

let parent = "";
let folder = "";
const held: NodeLock[] = [];
beforeEach(() => {
	parent = mkdtempSync(join(tmpdir(), "kup-lock-"));
	folder = join(parent, "run");
});
afterEach(() => {
	for (const lock of held.splice(0)) lock.release();
	rmSync(parent, { recursive: true });
});

function take(options: Partial<NodeLockOptions> = {}) {
	const { log, lines } = aCapturedLog();
	const { signal } = new AbortController();
	const taken = takeNodeLock({ folder, networkNamespace: "1", waitMs: 0, log, signal, ...options });
	return { lines, taken: taken.then((lock) => (lock === undefined ? lock : keep(lock))) };
}

function keep(lock: NodeLock): NodeLock {
	held.push(lock);
	return lock;
}

/** What a daemon leaves that is killed: a socket where nobody listens any more. */
async function aDeadOne(name: string): Promise<void> {
	const script = `require("node:net").createServer().listen(process.argv[1], () => console.log("up"))`;
	const child = spawn(process.execPath, ["-e", script, join(folder, name)], {
		stdio: ["ignore", "pipe", "inherit"],
	});
	await once(child.stdout, "data");
	child.kill("SIGKILL");
	await once(child, "close");
}

describe("takeNodeLock()", () => {
	it("is given to one at a time, and names the holder to all others", async () => {
		const first = await take().taken;
		expect(first).toBeDefined();
		await expect(take().taken).rejects.toMatchObject({
			code: "NODE_LOCKED",
			message: expect.stringContaining(`another kube-userproxy (pid ${process.pid})`),
		});
		first?.release();
		first?.release();
		expect(await take().taken).toBeDefined();
	});

	it("is one for each network namespace", async () => {
		await take().taken;
		expect(await take({ networkNamespace: "2" }).taken).toBeDefined();
		expect(await findNodeLockHolder({ folder, networkNamespace: "2" })).toBe(process.pid);
		expect(await findNodeLockHolder({ folder, networkNamespace: "3" })).toBeUndefined();
	});

	it("waits for one that ends, and says so once", async () => {
		const first = await take().taken;
		const { taken, lines } = take({ waitMs: 60_000 });
		await vi.waitFor(() => expect(lines).toHaveLength(1));
		expect(lines[0]).toMatchObject({
			level: "info",
			message: "waiting for another kube-userproxy to end",
			fields: { pid: process.pid, waitMs: 60_000 },
		});
		first?.release();
		expect(await taken).toBeDefined();
		expect(lines).toHaveLength(1);
	});

	it("ends the wait when it is not wanted any more", async () => {
		await take().taken;
		const abort = new AbortController();
		const { taken, lines } = take({ waitMs: 60_000, signal: abort.signal });
		await vi.waitFor(() => expect(lines).toHaveLength(1));
		abort.abort();
		expect(await taken).toBeUndefined();
	});

	it("is never given to two of many that come at once, and to one of them", async () => {
		const takers = Array.from({ length: 12 }, () => take({ waitMs: 3_000 }).taken);
		const outcomes = await Promise.allSettled(takers);
		expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
		expect(readdirSync(folder)).toHaveLength(1);
	});

	it("is given in the place of one that was killed, and sweeps what that left", async () => {
		const first = await take().taken;
		first?.release();
		await aDeadOne("1-4711-0a.sock");
		await aDeadOne("2-4712-0b.sock");
		expect(readdirSync(folder)).toHaveLength(2);
		expect(await findNodeLockHolder({ folder, networkNamespace: "1" })).toBeUndefined();
		expect(await take().taken).toBeDefined();
		expect(readdirSync(folder)).toEqual([expect.stringMatching(`^1-${process.pid}-`)]);
	});

	it("leaves other files alone", async () => {
		const first = await take().taken;
		first?.release();
		writeFileSync(join(folder, "notes.txt"), "");
		const server = createServer().listen(join(folder, "other.sock"));
		await once(server, "listening");
		await take().taken;
		expect(readdirSync(folder)).toEqual(expect.arrayContaining(["notes.txt", "other.sock"]));
		server.close();
	});

	it("keeps everybody else out of the folder", async () => {
		await take().taken;
		expect(statSync(folder).mode & 0o777).toBe(0o700);
	});

	it("is given all the same where the folder cannot be used, which is said", async () => {
		writeFileSync(folder, "");
		const { taken, lines } = take();
		expect(await taken).toBeDefined();
		expect(lines).toEqual([
			expect.objectContaining({
				level: "warn",
				message: "cannot notice a second kube-userproxy on this node",
			}),
		]);
		expect(await findNodeLockHolder({ folder })).toBeUndefined();
	});
});

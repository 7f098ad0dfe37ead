import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, test as it } from "vitest";
import { renderConnections } from "../../../src/cli/connections.ts";
import { renderStatus } from "../../../src/cli/status.ts";
import type { ConnectionRecord } from "../../../src/services/connection-record.ts";
import type { ConnectionsReport, StatusReport } from "../../../src/services/status.ts";
import { fakeHost, run } from "./fake-host.ts";

const REPORT: StatusReport = {
	version: "1.2.3",
	pid: 42,
	nodeName: "node1",
	startedAtMs: 940_000,
	ready: true,
	sources: [
		{
			name: "manifests /m",
			synced: true,
			freshAtMs: 998_000,
			problem: undefined,
			rejected: [{ object: "Service a/b", problems: ["spec.ports[0].port: wanted a port"] }],
		},
		{ name: "kubernetes x", synced: false, freshAtMs: undefined, problem: "401", rejected: [] },
	],
	rules: {
		backend: "iptables 1.8.9 (nf_tables)",
		lastVerifiedAtMs: 999_600,
		problem: "the lock is held",
	},
	relay: {
		engine: "syscall",
		workers: 2,
		ioUringWorkers: 2,
		fallbackReason: undefined,
		workerFailures: 3,
		lastWorkerFailure: { atMs: 988_000, error: "a bug" },
	},
	lastSyncAtMs: 999_000,
	logConnections: "errors",
	servicePorts: [
		{
			name: "shop/cart:http",
			key: "shop/cart:http/tcp/ipv4",
			protocol: "tcp",
			family: "ipv4",
			pool: "cluster",
			virtualAddresses: ["10.96.0.10"],
			port: 80,
			nodePort: 30_080,
			whenEmpty: "reject",
			proxyPort: 34_567,
			endpoints: [
				{ endpoint: "10.2.1.2:8080", state: "ok" },
				{ endpoint: "10.2.2.2:8080", state: "ok" },
				{ endpoint: "10.2.3.2:8080", state: "ok" },
				{ endpoint: "10.2.4.2:8080", state: "failing" },
			],
			connections: 12,
			problem: undefined,
		},
		{
			name: "kube-system/dns",
			key: "kube-system/dns:/udp/ipv6",
			protocol: "udp",
			family: "ipv6",
			pool: "cluster",
			virtualAddresses: ["fd10::a"],
			port: 53,
			nodePort: undefined,
			whenEmpty: "reject",
			proxyPort: undefined,
			endpoints: [],
			connections: 0,
			problem: "address already in use",
		},
		{
			name: "shop/edge:http",
			key: "shop/edge:http/tcp/ipv4/local",
			protocol: "tcp",
			family: "ipv4",
			pool: "local",
			virtualAddresses: ["198.51.100.7"],
			port: 80,
			nodePort: undefined,
			whenEmpty: "drop",
			proxyPort: 34_568,
			endpoints: [],
			connections: 0,
			problem: undefined,
		},
	],
};

const CONNECTIONS: ConnectionsReport = {
	connections: [
		{
			id: "1",
			protocol: "tcp",
			service: "shop/cart:http",
			client: "10.1.0.2:41234",
			endpoint: "10.2.1.2:8080",
			startedAtMs: 995_000,
			bytesIn: 312,
			bytesOut: 4100,
			state: "open",
		},
		{
			id: "2",
			protocol: "udp",
			service: "kube-system/dns",
			client: "10.1.0.2:5",
			endpoint: undefined,
			startedAtMs: 999_990,
			bytesIn: 0,
			bytesOut: 0,
			state: "dialing",
		},
	],
	total: 5,
};

const RECORD: ConnectionRecord = {
	id: "1",
	protocol: "tcp",
	family: "ipv4",
	service: "shop/cart:http",
	client: "10.1.0.2:41234",
	endpoint: "10.2.1.2:8080",
	podName: undefined,
	attempts: [],
	attemptCount: 1,
	affinity: undefined,
	bytesIn: 312,
	bytesOut: 4100,
	datagramsIn: undefined,
	datagramsOut: undefined,
	startedAtMs: 1,
	durationMs: 12,
	connectMs: 1,
	end: "closed",
};

let server: Server | undefined;

afterEach(() => {
	server?.closeAllConnections();
	server?.close();
	server = undefined;
});

/** Serves on loopback; the answer is the flag that leads there. */
async function serve(listener: RequestListener): Promise<string> {
	const listening = createServer(listener);
	server = listening;
	await new Promise<void>((resolve) => {
		listening.listen(0, "127.0.0.1", resolve);
	});
	return `--status-address 127.0.0.1:${(listening.address() as AddressInfo).port}`;
}

it("renderStatus() says first whether it is well and how old what it knows is", () => {
	expect(
		renderStatus(REPORT, 1_000_000),
	).toBe(`kube-userproxy 1.2.3 on node1, pid 42: ready, up 1 min 0 s
rules    iptables 1.8.9 (nf_tables), verified 400 ms ago; PROBLEM: the lock is held
relay    syscall, 2 workers, io_uring; PROBLEM: 3 ended by an error, the last 12.0 s ago: a bug
sync     1.0 s ago
source   manifests /m: known 2.0 s ago
           left out: Service a/b: spec.ports[0].port: wanted a port
source   kubernetes x: NOT READ YET
           PROBLEM: 401
records  one per connection: errors

SERVICE                 ADDRESS                   PROXY PORT  OPEN  ENDPOINTS
shop/cart:http          10.96.0.10:80,:30080/tcp       34567    12  4: 10.2.4.2:8080 (failing), 10.2.1.2:8080, 10.2.2.2:8080, 1 more
kube-system/dns         [fd10::a]:53/udp                   -     0  none, refuses  PROBLEM: address already in use
shop/edge:http (local)  198.51.100.7:80/tcp            34568     0  none here, drops
`);
});

it("renderStatus() of a daemon that has just begun claims nothing", () => {
	const rules = { backend: undefined, lastVerifiedAtMs: undefined, problem: undefined };
	const begun = {
		...REPORT,
		ready: false,
		rules,
		relay: undefined,
		lastSyncAtMs: undefined,
		servicePorts: [],
	};
	const text = renderStatus({ ...begun, sources: [] }, 1_000_000);
	expect(text).toContain("pid 42: NOT READY, up");
	expect(text).toContain(
		"rules    not known yet, verified not yet\nrelay    not known yet\nsync     not yet\n",
	);
	expect(text).toContain("No ServicePorts\n");
});

it.each([
	[
		{ workerFailures: 0, lastWorkerFailure: undefined, workers: 1, ioUringWorkers: 0 },
		"syscall, 1 worker, no io_uring",
	],
	[
		{ workerFailures: 0, lastWorkerFailure: undefined, workers: 3 },
		"syscall, 3 workers, io_uring in 2",
	],
	[
		{ lastWorkerFailure: { atMs: 0, error: "a bug" } },
		"syscall, 2 workers, io_uring; 3 ended by an error, the last 16 min 40 s ago: a bug",
	],
	[
		{
			engine: "stream",
			workers: 0,
			fallbackReason: "Cannot find package 'koffi'",
			workerFailures: 0,
			lastWorkerFailure: undefined,
		},
		"stream, one thread; no system calls: Cannot find package 'koffi'",
	],
] as const)("renderStatus() says what relays (%#)", (parts, line) => {
	const { relay } = REPORT;
	if (relay === undefined) return expect.unreachable();
	const text = renderStatus({ ...REPORT, relay: { ...relay, ...parts } }, 1_000_000);
	expect(text).toContain(`\nrelay    ${line}\n`);
});

it("renderConnections() is a table, and says when it was cut", () => {
	expect(renderConnections(CONNECTIONS, 1_000_000)).toBe(`The newest 2 of 5 connections
  AGE  CLIENT          SERVICE                ENDPOINT       STATE       IN     OUT
5.0 s  10.1.0.2:41234  shop/cart:http         10.2.1.2:8080  open     312 B  4.1 kB
10 ms  10.1.0.2:5      kube-system/dns (udp)  -              dialing    0 B     0 B
`);
	expect(renderConnections({ connections: [], total: 0 }, 0)).toBe("No connections\n");
});

describe("status", () => {
	it("asks the daemon and prints", async () => {
		const paths: (string | undefined)[] = [];
		const flag = await serve((request, response) => {
			paths.push(request.url);
			response.end(JSON.stringify(REPORT));
		});
		const { status, stdout, stderr } = await run(`status ${flag}`);
		expect({ status, stderr, paths }).toEqual({ status: 0, stderr: "", paths: ["/status"] });
		expect(stdout).toBe(renderStatus(REPORT, 1_000_000));
	});

	it("--json prints the answer, safe for a terminal", async () => {
		const answer = JSON.stringify({ ...REPORT, nodeName: "\u009b31m" });
		const flag = await serve((_, response) => void response.end(answer));
		const { stdout } = await run(`status --json ${flag}`);
		expect(stdout).not.toContain("\u009b");
		expect(JSON.parse(stdout)).toMatchObject({ nodeName: "\u009b31m", pid: 42 });
	});

	it("says that no daemon runs", async () => {
		const flag = await serve(() => {});
		server?.close();
		const { status, stdout, stderr } = await run(`status ${flag}`);
		expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
		expect(stderr).toMatch(
			/^kube-userproxy: status: No daemon answers on 127\.0\.0\.1:\d+: is kube-userproxy running/,
		);
	});

	it.each([
		["kube-proxy's port", 404, "", "is no kube-userproxy: it knows no /status"],
		["an unwilling server", 503, "", "status 503"],
		["another program", 200, "ok", "The answer cannot be understood"],
		["other JSON", 200, '{"version":"1"}', "The answer cannot be understood"],
	])("is not taken in by %s", async (_, code, body, text) => {
		const flag = await serve((__, response) => void response.writeHead(code).end(body));
		const { status, stderr } = await run(`status ${flag}`);
		expect(status).toBe(1);
		expect(stderr).toContain(text);
	});
});

describe("connections", () => {
	it("asks with the filter and prints", async () => {
		const paths: (string | undefined)[] = [];
		const flag = await serve((request, response) => {
			paths.push(request.url);
			response.end(JSON.stringify(CONNECTIONS));
		});
		const { status, stdout } = await run(
			`connections --service shop/cart:http --client ::ffff:10.1.0.2 ${flag}`,
		);
		expect(status).toBe(0);
		expect(stdout).toBe(renderConnections(CONNECTIONS, 1_000_000));
		expect(paths).toEqual(["/connections?service=shop%2Fcart%3Ahttp&client=10.1.0.2"]);
	});

	const events = [
		{ event: "started", atMs: 1, protocol: "udp", service: "a/b", client: "10.1.0.2:5" },
		{ event: "ended", record: { ...RECORD, service: "\u001b[2J" } },
		{ event: "dropped", count: 3 },
	];
	const lines = events.map((event) => JSON.stringify(event));

	it("--watch prints a line per event as it comes, and ends with 1 when the daemon does", async () => {
		const flag = await serve((_, response) => {
			// Cut in the middle of a line, as a network may.
			const text = `${lines.join("\n")}\n`;
			response.write(text.slice(0, 50));
			setImmediate(() => response.end(text.slice(50)));
		});
		const { status, stdout, stderr } = await run(`connections --watch ${flag}`);
		expect(stdout).toBe(
			"+ 10.1.0.2:5 → a/b (udp)\n" +
				"- 10.1.0.2:41234 → \\u001b[2J → 10.2.1.2:8080  closed  312 B in  4.1 kB out  12 ms\n" +
				"! 3 lines are missing: this reader was too slow\n",
		);
		expect(status).toBe(1);
		expect(stderr).toContain("the daemon has ended the answer");
	});

	it("--watch --json prints the daemon's lines", async () => {
		const flag = await serve((_, response) => void response.end(`${lines.join("\n")}\n`));
		const { stdout } = await run(`connections --watch --json ${flag}`);
		expect(
			stdout
				.trimEnd()
				.split("\n")
				.map((line) => JSON.parse(line)),
		).toEqual(events);
	});

	it("--watch ends with 0 when interrupted", async () => {
		const host = fakeHost();
		const flag = await serve((_, response) => void response.write(`${lines[0]}\n`));
		const ended = run(`connections --watch ${flag}`, host);
		await expect.poll(() => host.stdout(), { timeout: 5000, interval: 5 }).toContain("+ 10.1");
		host.raise("SIGINT");
		expect(await ended).toMatchObject({ status: 0, stderr: "" });
	});

	it("--watch is not taken in by lines that are no events", async () => {
		const flag = await serve((_, response) => void response.end('{"event":"x"}\n'));
		const { status, stderr } = await run(`connections --watch ${flag}`);
		expect(status).toBe(1);
		expect(stderr).toContain("A line of the answer cannot be understood");
	});
});

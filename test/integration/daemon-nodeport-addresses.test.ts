import { afterAll, afterEach, beforeAll, describe, expect, test as it } from "vitest";
import {
	ask,
	createKindLab,
	FAMILIES,
	type Family,
	kindService,
	NODE,
	NODE_PORT,
	REFUSED,
} from "../kit/address-kinds.ts";
import type { Agent } from "../kit/agent.ts";
import type { DaemonProcess } from "../kit/daemon-process.ts";
import { labProblem } from "../kit/lab.ts";
import { clusterIp, eventually, type ServiceLab } from "../kit/service-lab.ts";

const SERVED = [expect.stringMatching(/^ep\d$/), expect.stringMatching(/^ep\d$/)];
const LOOPBACK: Record<Family, string> = { ipv4: "127.0.0.1", ipv6: "::1" };
/** One that the node gets while the daemon runs; the client's way to it is the node. */
const NEW: Record<Family, string> = { ipv4: "192.0.2.33", ipv6: "fd40::33" };
const LENGTH: Record<Family, number> = { ipv4: 32, ipv6: 128 };

type Place = "to-client" | "to-outside" | "loopback";

describe.skipIf(labProblem() !== undefined)("where node ports are", () => {
	let services: ServiceLab;
	let node: Agent;
	let daemon: DaemonProcess | undefined;

	beforeAll(async () => {
		services = await createKindLab();
		node = await services.lab.node.agent();
		await services.write("a.json", kindService({ name: "a", number: 10 }));
	});
	afterEach(async () => {
		await daemon?.stop();
		daemon = undefined;
	});
	afterAll(async () => {
		await services.close();
	});

	const start = async (...flags: string[]) => {
		daemon = await services.start(flags);
		for (const family of FAMILIES) {
			await eventually(async () =>
				expect(await ask(services.client, clusterIp(10, family))).toEqual(SERVED),
			);
		}
	};
	/** Where node ports answer: to the client on the node's links, to the node everywhere. */
	const served = async (family: Family): Promise<readonly string[]> => {
		const [toClient, toOutside] = NODE[family];
		const asked: readonly (readonly [Place, Agent, string])[] = [
			["to-client", services.client, toClient],
			["to-client", node, toClient],
			["to-outside", services.client, toOutside],
			["to-outside", node, toOutside],
			["loopback", node, LOOPBACK[family]],
		];
		const found = new Map<Place, unknown[]>();
		for (const [place, from, address] of asked) {
			const answers = await ask(from, address, NODE_PORT);
			found.set(place, [...(found.get(place) ?? []), ...answers]);
		}
		// On an address either everybody is served, over TCP and UDP, or everybody is refused.
		for (const [place, answers] of found) {
			const isServed = answers.some((answer) => answer !== "ECONNREFUSED");
			const wanted = isServed ? expect.stringMatching(/^ep\d$/) : "ECONNREFUSED";
			expect([place, ...answers]).toEqual([place, ...answers.map(() => wanted)]);
			if (!isServed) found.delete(place);
		}
		return [...found.keys()];
	};

	const ALL = ["to-client", "to-outside", "loopback"];
	it.each<[flag: string, ipv4: readonly string[], ipv6: readonly string[]]>([
		["--nodeport-addresses=10.1.0.0/24", ["to-client"], ALL],
		["--nodeport-addresses=fd10:3::/64", ALL, ["to-outside"]],
		["--nodeport-addresses=10.1.0.0/24,fd10:1::/64", ["to-client"], ["to-client"]],
		// The way out is the outside's link: without a cluster that is the node's address.
		["--nodeport-addresses=primary", ["to-outside"], ["to-outside"]],
		["--nodeport-addresses=localhost", ["loopback"], ["loopback"]],
		[
			"--iptables-localhost-nodeports=false",
			["to-client", "to-outside"],
			["to-client", "to-outside"],
		],
	])("%s (case 33e)", async (flag, ipv4, ipv6) => {
		await start(flag);
		expect(await served("ipv4")).toEqual(ipv4);
		expect(await served("ipv6")).toEqual(ipv6);
	});

	it.each([
		["everywhere", []],
		["in a range that it is in", [`--nodeport-addresses=${NEW.ipv4}/24,${NEW.ipv6}/64`]],
	])("are on an address that comes while the daemon runs, until it goes (%s)", async (_, flags) => {
		await start(...flags);
		for (const family of FAMILIES) {
			const address = `${NEW[family]}/${LENGTH[family]}`;
			const options = family === "ipv6" ? ["nodad"] : [];
			const change = async (how: "add" | "del") =>
				await services.lab.node.ip(
					"addr",
					how,
					address,
					"dev",
					"to-client",
					...(how === "add" ? options : []),
				);
			await change("add");
			await eventually(async () => {
				expect(await ask(services.client, NEW[family], NODE_PORT)).toEqual(SERVED);
				expect(await ask(node, NEW[family], NODE_PORT)).toEqual(SERVED);
			}, 40_000);
			// Where it has gone to, nobody of ours answers for it.
			await change("del");
			const [reached] = await ask(services.client, NEW[family], NODE_PORT);
			expect(reached).not.toMatch(/^ep/);
			await change("add");
			await eventually(
				async () => expect(await ask(services.client, NEW[family], NODE_PORT)).toEqual(SERVED),
				40_000,
			);
			await change("del");
		}
	});

	it("are not on an address that comes and is in none of the ranges", async () => {
		await start("--nodeport-addresses=10.1.0.0/24");
		await services.lab.node.ip("addr", "add", `${NEW.ipv4}/32`, "dev", "to-client");
		await services.lab.node.ip("addr", "add", "10.1.0.33/32", "dev", "to-client");
		try {
			// Once the one is known, the other would be.
			await eventually(
				async () => expect(await ask(services.client, "10.1.0.33", NODE_PORT)).toEqual(SERVED),
				40_000,
			);
			expect(await ask(services.client, NEW.ipv4, NODE_PORT)).toEqual(REFUSED);
		} finally {
			await services.lab.node.ip("addr", "del", `${NEW.ipv4}/32`, "dev", "to-client");
			await services.lab.node.ip("addr", "del", "10.1.0.33/32", "dev", "to-client");
		}
	});
});

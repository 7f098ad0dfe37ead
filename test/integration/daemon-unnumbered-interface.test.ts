import { afterEach, beforeEach, describe, expect, test as it } from "vitest";
import {
	ask,
	createKindLab,
	FAMILIES,
	type Family,
	kindService,
	NODE,
	NODE_PORT,
} from "../kit/address-kinds.ts";
import { DAEMON_PROGRAM, type DaemonProcess, type LogLine } from "../kit/daemon-process.ts";
import { labProblem } from "../kit/lab.ts";
import { clusterIp, eventually, type ServiceLab, savedRules } from "../kit/service-lab.ts";

const SERVED = [expect.stringMatching(/^ep\d$/), expect.stringMatching(/^ep\d$/)];
const PLAN_COMMENT = "# this node has interfaces without an address: arriving TCP is led by DNAT";

const isNotice = ({ msg }: LogLine): boolean => msg.startsWith("interfaces have no address");

describe.skipIf(labProblem() !== undefined)("an interface of the node without an address", () => {
	let services: ServiceLab;

	beforeEach(async () => {
		services = await createKindLab();
		await services.write("a.json", kindService({ name: "a", number: 10 }));
	});
	afterEach(async () => {
		await services.close();
	});

	/** The node's end of the client's link as CNIs with a route for each Pod make it. */
	const takeIpv4Away = async () => {
		const { node, client } = services.lab;
		await node.sysctl({ "net.ipv4.conf.to-client.proxy_arp": "1" });
		await node.ip("addr", "del", "10.1.0.1/24", "dev", "to-client");
		await node.ip("route", "add", "10.1.0.2/32", "dev", "to-client", "scope", "link");
		await client.ip("addr", "flush", "dev", "eth0", "scope", "global");
		await client.ip("addr", "add", "10.1.0.2/32", "dev", "eth0");
		await client.ip("addr", "add", "fd10:1::2/64", "dev", "eth0", "nodad");
		await client.ip("route", "add", "169.254.1.1", "dev", "eth0", "scope", "link");
		await client.ip("route", "add", "default", "via", "169.254.1.1");
		await client.ip("-6", "route", "replace", "default", "via", "fd10:1::1");
	};
	const macOf = async (namespace: { ip: typeof services.lab.node.ip }, name: string) =>
		/link\/ether (\S+)/.exec(await namespace.ip("link", "show", name))?.[1] ?? "";
	/** No address of any scope: both ends know each other's only by a permanent entry. */
	const takeIpv6Away = async () => {
		const { node, client } = services.lab;
		await node.ip("-6", "addr", "flush", "dev", "to-client");
		await node.ip("-6", "route", "add", "fd10:1::2/128", "dev", "to-client");
		const [nodeMac, clientMac] = [await macOf(node, "to-client"), await macOf(client, "eth0")];
		const known = async (at: typeof node, address: string, mac: string, name: string) =>
			await at.ip("neigh", "replace", address, "lladdr", mac, "nud", "permanent", "dev", name);
		await known(node, "fd10:1::2", clientMac, "to-client");
		await known(client, "fd10:1::1", nodeMac, "eth0");
	};
	const take = { ipv4: takeIpv4Away, ipv6: takeIpv6Away };
	/** From the client; its link's own node address is the one that is gone. */
	const expectServed = async (family: Family) =>
		await eventually(async () => {
			expect(await ask(services.client, clusterIp(10, family))).toEqual(SERVED);
			expect(await ask(services.client, NODE[family][1], NODE_PORT)).toEqual(SERVED);
		});
	const plan = async (): Promise<string> => {
		const args = [DAEMON_PROGRAM, "plan", `--manifests=${services.folder}`];
		return (await services.lab.node.exec(process.execPath, args)).stdout;
	};
	/** How TCP that arrives for the ClusterIP is led. */
	const leadsBy = async (family: Family): Promise<string | undefined> =>
		(await savedRules(services.lab.node))
			.filter((rule) => rule.startsWith("-A KUBE-PORTALS-CONTAINER"))
			.filter((rule) => rule.includes(`-d ${clusterIp(10, family)}/`) && rule.includes("-p tcp"))
			.map((rule) => / -j (\w+)/.exec(rule)?.[1])
			.at(0);
	const notices = (daemon: DaemonProcess, family: Family) =>
		daemon.logs.filter((line) => isNotice(line) && line["family"] === family);

	it.each(FAMILIES)("its clients are served over TCP and UDP (%s) (case 16)", async (family) => {
		await take[family]();
		const daemon = await services.start();
		await expectServed(family);
		expect(await leadsBy(family)).toBe("DNAT");
		expect(notices(daemon, family)).toMatchObject([{ interfaces: ["to-client"] }]);
	});

	it("is told once, however many there are and come", async () => {
		await takeIpv4Away();
		const { node } = services.lab;
		const daemon = await services.start();
		await daemon.waitForLog(isNotice, { timeoutMs: 20_000 });
		await node.ip("link", "add", "pod1", "type", "veth", "peer", "name", "pod1-end");
		await node.ip("link", "set", "pod1", "up");
		await node.ip("link", "set", "pod1-end", "up");
		// As it is in force when a later change is, the interfaces have been looked at again.
		await services.write(
			"b.json",
			kindService({ name: "b", number: 11, ports: [{ name: "web", port: 81 }] }),
		);
		await eventually(async () =>
			expect((await ask(services.client, clusterIp(11), 81))[0]).toMatch(/^ep\d$/),
		);
		expect(notices(daemon, "ipv4")).toHaveLength(1);
	});

	it("is found when it comes while the daemon runs", async () => {
		const daemon = await services.start();
		await expectServed("ipv4");
		expect(await leadsBy("ipv4")).toBe("REDIRECT");
		await takeIpv4Away();
		await daemon.waitForLog(isNotice, { timeoutMs: 40_000 });
		await expectServed("ipv4");
	});

	it("is no reason once it is gone: a fresh start leads by REDIRECT, and so says plan", async () => {
		await takeIpv4Away();
		expect(await plan()).toContain(PLAN_COMMENT);
		const first = await services.start();
		await eventually(async () => expect(await leadsBy("ipv4")).toBe("DNAT"), 20_000);
		await first.stop();
		await services.lab.node.ip("addr", "add", "10.1.0.1/24", "dev", "to-client");
		const second = await services.start();
		await expectServed("ipv4");
		expect(await leadsBy("ipv4")).toBe("REDIRECT");
		expect(notices(second, "ipv4")).toEqual([]);
		expect(await plan()).not.toContain(PLAN_COMMENT);
	});

	it("a link-local address is enough for REDIRECT over IPv6", async () => {
		const { node } = services.lab;
		await node.ip("addr", "del", "fd10:1::1/64", "dev", "to-client");
		await node.ip("-6", "route", "add", "fd10:1::/64", "dev", "to-client");
		const [, own] = /inet6 (fe80\S+)\//.exec(await node.ip("addr", "show", "to-client")) ?? [];
		await services.lab.client.ip(
			"-6",
			"route",
			"replace",
			"default",
			"via",
			own ?? "",
			"dev",
			"eth0",
		);
		const daemon = await services.start();
		await expectServed("ipv6");
		expect(await leadsBy("ipv6")).toBe("REDIRECT");
		expect(notices(daemon, "ipv6")).toEqual([]);
	});
});

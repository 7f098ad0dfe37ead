import { describe, expect, test as it } from "vitest";
import { assumeBindings } from "../../../src/cli/plan.ts";
import type { ListedSources } from "../../../src/cli/read-sources.ts";
import { parseIpAddress } from "../../../src/services/address.ts";
import { admitEndpointSlice } from "../../../src/services/admit-endpoint-slice.ts";
import { admitService } from "../../../src/services/admit-service.ts";
import { PLAIN_NETWORK } from "../../../src/services/node-network.ts";
import { planServicePorts } from "../../../src/services/plan-service-ports.ts";
import { rawService } from "../../kit/raw-objects.ts";
import { snapshotOf } from "../../kit/snapshots.ts";
import { aView, plainView } from "../../kit/views.ts";
import { configOf, inputs } from "../config/inputs.ts";
import { EMPTY_SNAPSHOT, fakeHost, run } from "./fake-host.ts";

function listed(): ListedSources {
	const service = admitService({
		kind: "Service",
		metadata: { name: "cart", namespace: "shop" },
		spec: {
			clusterIP: "10.96.0.10",
			ports: [
				{ name: "http", port: 80 },
				{ name: "dns", port: 53, protocol: "UDP" },
			],
		},
	});
	const slice = admitEndpointSlice({
		metadata: {
			name: "cart-1",
			namespace: "shop",
			labels: { "kubernetes.io/service-name": "cart" },
		},
		addressType: "IPv4",
		ports: [{ name: "http", port: 8080 }],
		endpoints: [{ addresses: ["10.2.1.2"] }],
	});
	if (!service.admitted || !slice.admitted) throw new Error("the samples are wrong");
	return {
		snapshot: {
			...EMPTY_SNAPSHOT,
			services: new Map([["shop/cart", service.object]]),
			endpointSlices: new Map([["shop/cart-1", slice.object]]),
		},
		sources: [{ name: "manifests /m", isComplete: true, problems: ["x.yaml: bad"] }],
	};
}

function host(doors: Parameters<typeof fakeHost>[0] = {}) {
	return fakeHost({
		...doors,
		readSources: () => Promise.resolve(listed()),
		lookAtNode: () => ({
			view: plainView,
			network: PLAIN_NETWORK,
			udpAddress: (family) => parseIpAddress(family === "ipv4" ? "192.0.2.9" : "fd10::9"),
		}),
	});
}

it("plan prints the rules with assumed proxy ports, what is wrong to standard error", async () => {
	const { status, stdout, stderr } = await run("plan --manifests /m --family ipv4", host());
	expect(status).toBe(0);
	expect(stderr).toBe("kube-userproxy: plan: manifests /m: x.yaml: bad\n");
	expect(stdout.split("\n").slice(0, 4)).toEqual([
		"# ipv4: input of iptables-restore --noflush on a host without rules of ours",
		"# shop/cart:dns (udp): proxy port 40001, assumed",
		"# shop/cart:http (tcp): proxy port 40002, assumed",
		"*filter",
	]);
	expect(stdout).toMatch(/-d 10\.96\.0\.10\/32 -p tcp .* -j REDIRECT --to-ports 40002$/m);
	expect(stdout).toMatch(/-j DNAT --to-destination 192\.0\.2\.9:40001$/m);
	// No endpoint: refused.
	expect(stdout).toMatch(/40001 .* -j REJECT --reject-with icmp-port-unreachable$/m);
	expect(stdout).not.toContain("ip6tables");
});

it("plan leads UDP to the proxy port on every address where the engine listens so", async () => {
	const { stdout, stderr } = await run(
		"plan --manifests /m --family ipv4",
		host({ relayEngine: () => Promise.resolve("syscall") }),
	);
	expect(stdout).toMatch(/-d 10\.96\.0\.10\/32 -p udp .* -j REDIRECT --to-ports 40001$/m);
	expect(stdout).not.toContain("192.0.2.9");
	expect(stderr).not.toContain("left out");
});

it("plan prints both families where none is named", async () => {
	const { stdout } = await run("plan --manifests /m", host());
	expect(stdout).toContain("# ipv4: ");
	expect(stdout).toContain("# ipv6: input of ip6tables-restore");
});

it("plan with --rules none prints no rule", async () => {
	expect(await run("plan --manifests /m --rules none", host())).toMatchObject({
		status: 0,
		stdout: "# --rules none: no packet rules\n",
	});
});

it("plan fails only where nothing could be read", async () => {
	const sources = [{ name: "manifests /m", isComplete: false, problems: ["is not there"] }];
	const nothing = fakeHost({
		readSources: () => Promise.resolve({ snapshot: EMPTY_SNAPSHOT, sources }),
	});
	expect(await run("plan --manifests /m", nothing)).toEqual({
		status: 1,
		stdout: "",
		stderr: "kube-userproxy: plan: manifests /m: is not there\n",
	});
});

it("plan takes the flags that the rules depend on, and tells the two pools of a port apart", async () => {
	const raw = rawService({
		ports: [{ name: "http", protocol: "TCP", port: 80, nodePort: 30_080 }],
		spec: { type: "NodePort", externalTrafficPolicy: "Local", externalIPs: ["203.0.113.7"] },
	});
	const local = fakeHost({
		readSources: () =>
			Promise.resolve({
				snapshot: snapshotOf([raw]),
				sources: [{ name: "manifests", isComplete: true, problems: [] }],
			}),
		lookAtNode: () => ({
			view: aView({ allowedExternalIps: [] }),
			network: PLAIN_NETWORK,
			udpAddress: () => undefined,
		}),
	});
	const flags =
		"--cluster-cidr 10.244.0.0/16 --nodeport-addresses primary --allow-external-ips none";
	const { status, stdout, stderr } = await run(`plan --manifests /m ${flags}`, local);
	expect(status).toBe(0);
	expect(stderr).toBe(
		"kube-userproxy: plan: shop/cart:http: not served (address-refused): ExternalIP 203.0.113.7 is not in --allow-external-ips\n",
	);
	expect(stdout).toContain("# shop/cart:http (tcp): proxy port 40001, assumed\n");
	expect(stdout).toContain(
		"# shop/cart:http (tcp, only endpoints on this node): proxy port 40002, assumed\n",
	);
});

describe("assumeBindings()", () => {
	const { servicePorts } = planServicePorts(listed().snapshot, plainView, {
		serviceProxyName: undefined,
	});

	it("takes the ports of the range and says who gets none", () => {
		const config = configOf(inputs({ "proxy-port-range": ["7-7"], "bind-address": ["192.0.2.1"] }));
		const { bindings, problems } = assumeBindings(servicePorts, config, () => undefined);
		expect(bindings.map(({ proxyPort, listenAddress }) => [proxyPort, listenAddress])).toEqual([
			[7, "192.0.2.1"],
		]);
		expect(problems).toEqual(["shop/cart:http is left out: no proxy port is left"]);
	});

	it("leaves UDP out where the node has no address for it", () => {
		const { bindings, problems } = assumeBindings(
			servicePorts,
			configOf(inputs()),
			() => undefined,
		);
		expect(bindings.map(({ name }) => name)).toEqual(["shop/cart:http"]);
		expect(problems).toEqual(["shop/cart:dns is left out: this node has no ipv4 address for UDP"]);
	});
});

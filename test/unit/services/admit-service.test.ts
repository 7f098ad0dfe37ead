import { describe, expect, test as it } from "vitest";
import { admitService } from "../../../src/services/admit-service.ts";
import { rawService } from "../../kit/raw-objects.ts";
import { admitted, problemsOf } from "../../kit/snapshots.ts";

describe("admitService()", () => {
	it("keeps what we decide by", () => {
		const raw = rawService({ clusterIps: ["10.96.0.10", "FD10:96::A"] });
		expect(admitted(admitService(raw))).toEqual({
			namespace: "shop",
			name: "cart",
			createdAtMs: undefined,
			kind: "addressed",
			proxyName: undefined,
			clusterIps: ["10.96.0.10", "fd10:96::a"],
			externalIps: [],
			loadBalancerIps: [],
			sourceRanges: [],
			internalTrafficPolicy: "Cluster",
			externalTrafficPolicy: "Cluster",
			healthCheckNodePort: undefined,
			ports: [{ name: "http", protocol: "tcp", port: 80, nodePort: undefined }],
			sessionAffinity: { type: "None" },
		});
	});

	it("reads all that is asked of a load balancer's Service (classic 9.4.6, 9.4.10)", () => {
		const raw = {
			...rawService({
				createdAt: "2026-11-29T16:17:30Z",
				ports: [{ name: "http", protocol: "TCP", port: 80, nodePort: 30_080 }],
				spec: {
					type: "LoadBalancer",
					externalIPs: ["203.0.113.7", "FD20::7", "203.0.113.7"],
					loadBalancerSourceRanges: [" 198.51.100.9/24 ", "fd30::/32"],
					internalTrafficPolicy: "Local",
					externalTrafficPolicy: "Local",
					healthCheckNodePort: 31_797,
				},
			}),
			status: {
				loadBalancer: {
					ingress: [
						{ ip: "198.51.100.7" },
						{ ip: "198.51.100.8", ipMode: "VIP" },
						{ ip: "198.51.100.9", ipMode: "Proxy" },
						{ hostname: "lb.example.com" },
					],
				},
			},
		};
		expect(admitted(admitService(raw))).toMatchObject({
			createdAtMs: Date.UTC(2026, 10, 29, 16, 17, 30),
			externalIps: ["203.0.113.7", "fd20::7"],
			loadBalancerIps: ["198.51.100.7", "198.51.100.8"],
			sourceRanges: ["198.51.100.0/24", "fd30::/32"],
			internalTrafficPolicy: "Local",
			externalTrafficPolicy: "Local",
			healthCheckNodePort: 31_797,
			ports: [{ nodePort: 30_080 }],
		});
	});

	it("does not mind a policy and a port that another type of Service left", () => {
		const left = { externalTrafficPolicy: "Local", healthCheckNodePort: 31_797 };
		expect(admitted(admitService(rawService({ spec: left })))).toMatchObject({
			externalTrafficPolicy: "Cluster",
			healthCheckNodePort: undefined,
		});
		const nodePort = { ...left, type: "NodePort" };
		expect(admitted(admitService(rawService({ spec: nodePort })))).toMatchObject({
			externalTrafficPolicy: "Local",
			healthCheckNodePort: undefined,
		});
	});

	it.each([
		[
			{ externalIPs: ["example.com"] },
			'spec.externalIPs[0]: wanted an IP address, got "example.com"',
		],
		[{ externalIPs: "203.0.113.7" }, 'spec.externalIPs: wanted a list, got "203.0.113.7"'],
		[
			{ loadBalancerSourceRanges: ["203.0.113.7"] },
			'spec.loadBalancerSourceRanges[0]: wanted a range such as 203.0.113.0/24, got "203.0.113.7"',
		],
		[
			{ internalTrafficPolicy: "local" },
			'spec.internalTrafficPolicy: wanted one of Cluster, Local, got "local"',
		],
		[
			{ healthCheckNodePort: 70_000 },
			"spec.healthCheckNodePort: wanted an integer in 1..65535, got 70000",
		],
		[
			{ ports: [{ port: 80, nodePort: -1 }] },
			"spec.ports[0].nodePort: wanted an integer in 1..65535, got -1",
		],
	])("names what the API would refuse: %j", (spec, problem) => {
		expect(problemsOf(admitService(rawService({ spec })))).toEqual([problem]);
	});

	it.each([
		["headless", rawService({ spec: { clusterIP: "None", clusterIPs: ["None"] } }), "headless"],
		[
			"headless without ports",
			rawService({ spec: { clusterIP: "None", clusterIPs: ["None"], ports: null } }),
			"headless",
		],
		[
			"ExternalName, with an address too",
			rawService({ spec: { type: "ExternalName", externalName: "db.example.com" } }),
			"ExternalName",
		],
		[
			"headless by clusterIPs alone",
			rawService({ spec: { clusterIP: undefined, clusterIPs: ["None"] } }),
			"headless",
		],
		["LoadBalancer", rawService({ spec: { type: "LoadBalancer" } }), "addressed"],
	])("tells the kind of a Service: %s (classic 9.4.2, 9.4.3, 9.7.1)", (_name, raw, kind) => {
		expect(admitted(admitService(raw)).kind).toBe(kind);
	});

	it("fills in the API's defaults (case 8c)", () => {
		const raw = rawService({
			ports: [{ port: 53 }],
			spec: { type: undefined, sessionAffinity: "ClientIP", clusterIPs: undefined },
		});
		const { ports, sessionAffinity, clusterIps } = admitted(admitService(raw));
		expect(ports).toEqual([{ name: "", protocol: "tcp", port: 53 }]);
		expect(sessionAffinity).toEqual({ type: "ClientIP", timeoutMs: 10_800_000 });
		expect(clusterIps).toEqual(["10.96.0.10"]);
	});

	it.each([
		["no object", 7, /^wanted an object, got 7$/],
		["no spec", { ...rawService(), spec: undefined }, /^spec: wanted an object, got nothing$/],
		[
			"ports absent",
			rawService({ spec: { ports: undefined } }),
			/^spec\.ports: wanted at least one/,
		],
		["ports no list", rawService({ spec: { ports: {} } }), /^spec\.ports: wanted a list/],
		["port 0", rawService({ ports: [{ port: 0 }] }), /^spec\.ports\[0\]\.port: .*got 0$/],
		["port 70000", rawService({ ports: [{ port: 70_000 }] }), /1\.\.65535, got 70000$/],
		["port as text", rawService({ ports: [{ port: "80" }] }), /got "80"$/],
		["port absent", rawService({ ports: [{}] }), /got nothing$/],
		["bad IP", rawService({ clusterIp: "10.96.0" }), /^spec\.clusterIPs\[0\]: wanted an IP/],
		["IP with zero", rawService({ clusterIp: "010.96.0.1" }), /wanted an IP address/],
		[
			"no IP",
			rawService({ spec: { clusterIP: "", clusterIPs: [] } }),
			/write it into the manifest/,
		],
		[
			"two of one family",
			rawService({ clusterIps: ["10.96.0.1", "10.96.0.2"] }),
			/the other IP family/,
		],
		["lists that differ", rawService({ spec: { clusterIP: "10.96.0.9" } }), /same address as/],
		["loopback", rawService({ clusterIp: "127.0.0.1" }), /an address that is not loopback/],
		["every address", rawService({ clusterIp: "0.0.0.0" }), /not unspecified/],
		["broadcast", rawService({ clusterIp: "255.255.255.255" }), /not broadcast/],
		["multicast", rawService({ clusterIp: "ff02::1" }), /not multicast/],
		[
			"headless with an address",
			rawService({ spec: { clusterIP: "None", clusterIPs: ["10.96.0.10"] } }),
			/^spec\.clusterIPs: wanted nothing but "None"/,
		],
		[
			"labels as text",
			{ ...rawService(), metadata: { namespace: "shop", name: "a", labels: "x" } },
			/^metadata\.labels: wanted an object/,
		],
		[
			"a proxy name that is no text",
			{
				...rawService(),
				metadata: {
					namespace: "shop",
					name: "a",
					labels: { "service.kubernetes.io/service-proxy-name": true },
				},
			},
			/^metadata\.labels\["service\.kubernetes\.io\/service-proxy-name"\]: wanted a string, got true$/,
		],
		["protocol", rawService({ ports: [{ port: 1, protocol: "ICMP" }] }), /one of TCP, UDP, SCTP/],
		["upper-case name", rawService({ name: "Cart" }), /^metadata\.name: /],
		["name with a newline", rawService({ name: "a\n-A INPUT" }), /^metadata\.name: /],
		["no namespace", rawService({ namespace: "" }), /^metadata\.namespace: /],
		[
			"two unnamed ports",
			rawService({ ports: [{ port: 1 }, { port: 2 }] }),
			/ports\[0\]\.name: wanted a name/,
		],
		[
			"one name twice",
			rawService({
				ports: [
					{ name: "a", port: 1 },
					{ name: "a", port: 2 },
				],
			}),
			/ports\[1\]\.name: wanted a name that no other/,
		],
		[
			"one number twice",
			rawService({
				ports: [
					{ name: "a", port: 1 },
					{ name: "b", port: 1 },
				],
			}),
			/ports\[1\]: wanted a port that is not there/,
		],
		["affinity", rawService({ spec: { sessionAffinity: "Cookie" } }), /one of None, ClientIP/],
		[
			"affinity timeout",
			rawService({
				spec: {
					sessionAffinity: "ClientIP",
					sessionAffinityConfig: { clientIP: { timeoutSeconds: 86_401 } },
				},
			}),
			/clientIP\.timeoutSeconds: wanted an integer in 1\.\.86400, got 86401/,
		],
		["type", rawService({ spec: { type: "Weird" } }), /^spec\.type: wanted one of/],
	])(
		"names the field of what the API would have refused: %s (classic 9.1.15, 9.4.1, 9.7.1, 9.7.2)",
		(_name, raw, expected) => {
			expect(problemsOf(admitService(raw)).join("\n")).toMatch(new RegExp(expected.source, "m"));
		},
	);

	it.each([
		[
			"too many ports",
			{
				ports: Array.from({ length: 5_001 }, (_, index) => ({
					name: `p${index}`,
					port: 1 + index,
				})),
			},
			"spec.ports: wanted at most 5000 items, got 5001",
		],
		["ports that are no list", { ports: "" }, 'spec.ports: wanted a list, got ""'],
		[
			"too many addresses",
			{ clusterIP: undefined, clusterIPs: ["10.96.0.1", "fd10::1", "10.96.0.2"] },
			"spec.clusterIPs: wanted at most 2 items, got 3",
		],
		[
			"addresses that are no list",
			{ clusterIP: "", clusterIPs: "10.96.0.1" },
			'spec.clusterIPs: wanted a list, got "10.96.0.1"',
		],
		[
			"an address that is no text",
			{ clusterIP: 7, clusterIPs: undefined },
			"spec.clusterIP: wanted a string, got 7",
		],
	])("says of %s one thing only", (_name, spec, expected) => {
		expect(problemsOf(admitService(rawService({ spec })))).toEqual([expected]);
	});

	it("names everything that is wrong at once", () => {
		const raw = rawService({ name: "X", clusterIp: "x", ports: [{ port: 0 }, { port: -1 }] });
		expect(problemsOf(admitService(raw)).length).toBeGreaterThanOrEqual(4);
	});

	it("names some of many faults and counts them", () => {
		const ports = Array.from({ length: 50 }, () => ({ port: 0 }));
		const problems = problemsOf(admitService(rawService({ ports })));
		expect(problems).toHaveLength(20);
		expect(problems.at(-1)).toBe("wanted no more faults than these, got 50");
	});

	it("shows a hostile value cut and escaped", () => {
		const hostile = `\u001b[31m${"9".repeat(10_000)}`;
		const raw = rawService({ ports: [{ port: hostile }], spec: { clusterIP: hostile } });
		const problems = problemsOf(admitService(raw));
		expect(problems.length).toBeGreaterThanOrEqual(2);
		for (const problem of problems) {
			expect(problem.length).toBeLessThan(200);
			expect(problem).not.toContain("\u001b");
		}
	});

	it("TCP and UDP may share a number", () => {
		const ports = [
			{ name: "dns", protocol: "UDP", port: 53 },
			{ name: "dns-tcp", protocol: "TCP", port: 53 },
		];
		expect(admitted(admitService(rawService({ ports }))).ports).toHaveLength(2);
	});

	it("an empty service-proxy-name is a value too", () => {
		const labels = { "service.kubernetes.io/service-proxy-name": "" };
		expect(admitted(admitService(rawService({ labels }))).proxyName).toBe("");
	});
});

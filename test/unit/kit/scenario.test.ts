import { readFileSync } from "node:fs";
import { expect, test as it } from "vitest";
import { parseScenario } from "../../kit/scenario.ts";

const GOOD = `
shows: it works
objects:
  web:
    kind: Service
    spec:
      clusterIPs: [10.96.0.10]
      ports: [{ name: p, port: 80 }]
  pods:
    kind: EndpointSlice
    of: web
    ports: [{ name: p }]
    endpoints: [ep1, { at: ep2, node: node1 }]
steps:
  - does: both come
    apply: [web, pods]
    reach:
      - { from: client, to: 10.96.0.10:80/tcp, expect: [ep1] }
    plan:
      servicePorts: { web:p/tcp/ipv4: [ep1, ep2] }
  - does: the slice goes
    delete: pods
    reach:
      - { from: client, to: 10.96.0.10:80/tcp, expect: refused }
`;

it("a good file is read, one of something as a list of one", () => {
	const scenario = parseScenario("it-works.yaml", GOOD);
	expect(scenario).toMatchObject({ name: "it-works", kernel: true });
	expect(scenario.steps[1]?.delete).toEqual(["pods"]);
});

it("what test/README.md shows is a good file", () => {
	const text = readFileSync(new URL("../../README.md", import.meta.url), "utf8");
	const [, example = ""] = /```yaml\n(shows:.*?)```/s.exec(text) ?? [];
	expect(parseScenario("example.yaml", example).steps).toHaveLength(2);
});

it.each([
	["an unknown field", "shows:", "show:", 'Unrecognized key: "show"'],
	["one of a step", "    apply:", "    aply:", 'steps[0]: Unrecognized key: "aply"'],
	["one of a reach", "from: client", "form: client", 'steps[0].reach[0]: Unrecognized key: "form"'],
	["one of a spec", "clusterIPs", "clusterIps", "objects.web.spec: Unrecognized key"],
	["one of an endpoint", "node: node1", "nodeName: node1", "objects.pods.endpoints[1]: Unrecog"],
	["an unknown kind", "kind: Service", "kind: Serivce", "objects.web.kind: wanted kind Service"],
	["an unknown place", "from: client", "from: clinet", "steps[0].reach[0].from[0]: Invalid option"],
	["a target without protocol", "80/tcp, expect: [ep1]", "80, expect: [ep1]", "to[0]: wanted ADDR"],
	["an unknown outcome", "refused", "refuse", "steps[1].reach[0].expect: wanted a list"],
	["an endpoint that the lab has not", "[ep1] }", "[ep4] }", "reach[0].expect: wanted a list"],
	["a key twice", "kind: Service", "kind: Service\n    kind: Service", "Map keys must be unique"],
])("%s is refused with file and field", (_, part, typo, message) => {
	const read = () => parseScenario("typo.yaml", GOOD.replace(part, typo));
	expect(read).toThrow("Cannot read scenario typo.yaml");
	expect(read).toThrow(message);
});

it.each([
	["an object that no step applies", "[web, pods]", "web", "objects.pods: no step applies it"],
	["an object that is not there", "[web, pods]", "[web, pods, x]", 'steps[0]: cannot apply "x"'],
	["a deletion of what is not there", "delete: pods", "delete: webs", 'cannot delete "webs"'],
	["a slice of no Service", "of: web", "of: wbe", "objects.pods.of: no Service of the file"],
	[
		"an endpoint that no slice holds",
		"[ep1] }",
		"[ep3] }",
		"steps[0].reach[0].expect: no Endpoint",
	],
	["a port that no Service has", "10:80/tcp, expect: [", "10:81/tcp, expect: [", "has port 81"],
	["a plan for no Service", "web:p/tcp/ipv4", "wbe:p/tcp/ipv4", "wbe:p/tcp/ipv4: no such Service"],
	["a key that is none", "web:p/tcp/ipv4", "web:p/tcp", "servicePorts.web:p/tcp: wanted SERVICE"],
	[
		"a first step that keeps ports",
		"    plan:",
		"    proxyPorts: kept\n    plan:",
		"no step is before",
	],
	[
		"flags beside a kernel",
		"objects:",
		"flags: { relay: [stream] }\nobjects:",
		"flags: one daemon",
	],
	[
		"a port that the lab has not",
		"[{ name: p }]",
		"[{ name: p, port: 81 }]",
		"listen on 8080 only",
	],
])("%s is refused, since nothing could come of it", (_, part, fault, message) => {
	expect(() => parseScenario("fault.yaml", GOOD.replace(part, fault))).toThrow(message);
});

it("a step that expects nothing, and a file of another kind, are refused", () => {
	const silent = GOOD.slice(0, GOOD.lastIndexOf("    reach:"));
	expect(() => parseScenario("a.yaml", silent)).toThrow("steps[1]: wanted reach, plan or both");
	expect(() => parseScenario("a.yml", GOOD)).toThrow("wanted a .yaml file");
});

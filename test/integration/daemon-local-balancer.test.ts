import { afterEach, beforeEach, describe, expect, test as it } from "vitest";
import {
	ask,
	BALANCER,
	createKindLab,
	FAMILIES,
	ingressOf,
	kindService,
	NODE,
	NODE_PORT,
} from "../kit/address-kinds.ts";
import { labProblem } from "../kit/lab.ts";
import { eventually, type ServiceLab } from "../kit/service-lab.ts";

/** Its port number is the node port of the other. */
const balanced = () =>
	kindService({
		name: "balanced",
		number: 10,
		ports: [
			{ name: "web", protocol: "TCP", port: NODE_PORT },
			{ name: "dns", protocol: "UDP", port: NODE_PORT },
		],
		status: ingressOf({ ip: BALANCER.ipv4 }, { ip: BALANCER.ipv6 }),
		endpoints: [[1]],
	});
const onNodePort = () => kindService({ name: "on-node-port", number: 11, endpoints: [[2]] });

describe.skipIf(labProblem() !== undefined)("a load balancer's address that the node has", () => {
	let services: ServiceLab;

	beforeEach(async () => {
		services = await createKindLab();
		const { node } = services.lab;
		await node.ip("addr", "add", `${BALANCER.ipv4}/32`, "dev", "lo");
		await node.ip("addr", "add", `${BALANCER.ipv6}/128`, "dev", "lo", "nodad");
	});
	afterEach(async () => {
		await services.close();
	});

	it.each([
		["the load balancer's Service first", balanced, onNodePort],
		["the node port's Service first", onNodePort, balanced],
	])(
		"wins over a node port of the same number, on that address only (%s) (classic 9.1.36, 9.1.37)",
		async (_, ...both) => {
			const [first, second] = both;
			const node = await services.lab.node.agent();
			await services.write("first.json", first());
			await services.start();
			await services.write("second.json", second());
			const expectAnswers = async (address: string, endpoint: string) => {
				for (const from of [services.client, node]) {
					expect([address, await ask(from, address, NODE_PORT)]).toEqual([
						address,
						[endpoint, endpoint],
					]);
				}
			};
			for (const family of FAMILIES) {
				await eventually(async () => await expectAnswers(BALANCER[family], "ep1"));
				await eventually(async () => await expectAnswers(NODE[family][0], "ep2"));
			}
			// Without the Service it is an address of the node as any other.
			await services.write(both[0] === balanced ? "first.json" : "second.json", []);
			for (const family of FAMILIES) {
				await eventually(async () => await expectAnswers(BALANCER[family], "ep2"));
			}
		},
	);
});

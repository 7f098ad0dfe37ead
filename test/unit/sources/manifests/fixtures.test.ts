import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { planServicePorts } from "../../../../src/services/plan-service-ports.ts";
import { readManifestsOnce } from "../../../../src/sources/manifests/read-once.ts";
import { plainView } from "../../../kit/views.ts";

const FIXTURES = fileURLToPath(new URL("../../../fixtures/manifests", import.meta.url));

/** "shop/cart:http/tcp/ipv4": its address and the keys of its endpoints. */
async function plan(file: string): Promise<Record<string, readonly string[]>> {
	const { snapshot, problems } = await readManifestsOnce([`${FIXTURES}/${file}`], "node1");
	expect(problems).toEqual([]);
	const { servicePorts } = planServicePorts(snapshot, plainView, { serviceProxyName: undefined });
	return Object.fromEntries(
		servicePorts.map(({ key, endpoints }) => [key, endpoints.map((endpoint) => endpoint.key)]),
	);
}

describe("dumps out of a real control plane", () => {
	it.each(["kube-system.yaml", "market.yaml", "shop.yaml"])("come through: %s", async (file) => {
		expect(await plan(file)).toMatchSnapshot();
	});
});

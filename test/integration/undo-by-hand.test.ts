import { readFileSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, test as it } from "vitest";
import { labProblem } from "../kit/lab.ts";
import { createServiceLab, labService, type ServiceLab, savedRules } from "../kit/service-lab.ts";

describe.skipIf(labProblem() !== undefined)("README's way to undo it by hand", () => {
	let services: ServiceLab;

	beforeEach(async () => {
		services = await createServiceLab({ endpoints: 1 });
	});
	afterEach(async () => {
		await services.close();
	});

	it("leaves no rule and no chain of a daemon that was killed, and others' rules alone", async () => {
		const { node } = services.lab;
		const families = ["ipv4", "ipv6"] as const;
		await services.write("a.json", labService({ name: "a", number: 10, endpoints: [], families }));
		const daemon = await services.start();
		await daemon.kill9();
		await node.exec("iptables-nft", ["-t", "nat", "-A", "OUTPUT", "-p", "tcp", "-j", "ACCEPT"]);
		expect((await savedRules(node)).length).toBeGreaterThan(10);
		await node.exec("bash", ["-c", `${commands()}\ntrue`]);
		expect(await savedRules(node)).toEqual(["-A OUTPUT -p tcp -j ACCEPT"]);
		for (const family of ["iptables", "ip6tables"]) {
			expect((await node.exec(`${family}-save`, [])).stdout).not.toContain("KUBE-");
		}
	});
});

/** The shell lines of README.md that promise it. */
function commands(): string {
	const readme = readFileSync(new URL("../../README.md", import.meta.url), "utf8");
	const block = readme.split("without the program")[1]?.split("```sh\n")[1]?.split("```")[0];
	if (block === undefined) throw new Error("README.md does not say how to undo it by hand");
	return block;
}

import { describe, expect, test as it } from "vitest";
import { parseIpAddress } from "../../../../src/services/address.ts";
import type { Service } from "../../../../src/services/objects.ts";
import { type Log, silentLog } from "../../../../src/shared/log.ts";
import { ClusterAddress } from "../../../../src/sources/kubernetes/cluster-address.ts";
import { aService } from "../../../kit/services.ts";

function service(namespace: string, name: string, address: string): Service {
	const parsed = parseIpAddress(address);
	return aService({ namespace, name, clusterIps: parsed === undefined ? [] : [parsed] });
}

function anAddress(env: Record<string, string> = {}) {
	const warnings: string[] = [];
	const log: Log = { ...silentLog, warn: (_fields, message) => void warnings.push(message) };
	return { warnings, address: new ClusterAddress(env, log) };
}

describe("ClusterAddress", () => {
	it("knows the Service's address that pods are told", () => {
		const { address } = anAddress({ KUBERNETES_SERVICE_HOST: "10.96.0.1" });
		expect(address.isClusterIp("https://10.96.0.1:443")).toBe(true);
		expect(address.isClusterIp("https://192.0.2.10:6443")).toBe(false);
	});

	it("learns it from default/kubernetes, and says once that it is what we talk to (case 22d)", () => {
		const { address, warnings } = anAddress();
		address.use("https://[fd10::1]:443");
		address.learn([service("shop", "kubernetes", "fd10::1")]);
		expect(address.isClusterIp("https://[fd10::1]:443")).toBe(false);
		address.learn([service("default", "kubernetes", "fd10::1")]);
		address.learn([service("default", "kubernetes", "fd10::1")]);
		expect(address.isClusterIp("https://[fd10::1]:443")).toBe(true);
		expect(warnings).toHaveLength(1);
		expect(warnings[0]).toContain("give its own address with --master");
	});

	it("says nothing where we talk to the server itself", () => {
		const { address, warnings } = anAddress();
		address.use("https://192.0.2.10:6443");
		address.learn([service("default", "kubernetes", "10.96.0.1")]);
		expect(warnings).toEqual([]);
	});
});

import { writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";

/** An empty folder that is gone after the test. */
export async function aFolder(): Promise<string> {
	const folder = await mkdtemp(join(tmpdir(), "kube-userproxy-test-"));
	onTestFinished(() => rm(folder, { recursive: true }));
	return folder;
}

export interface KubeconfigParts {
	/** PEM of the CA; goes into the kubeconfig. */
	readonly ca?: string;
	/** More fields of the cluster. */
	readonly cluster?: Readonly<Record<string, unknown>>;
	readonly user?: Readonly<Record<string, unknown>>;
}

/** Writes `folder/kubeconfig`. @returns its path. */
export function kubeconfigFor(folder: string, server: string, parts: KubeconfigParts = {}): string {
	const { ca, cluster = {}, user = {} } = parts;
	const authority =
		ca === undefined ? {} : { "certificate-authority-data": Buffer.from(ca).toString("base64") };
	const path = join(folder, "kubeconfig");
	const config = {
		apiVersion: "v1",
		kind: "Config",
		clusters: [{ name: "c", cluster: { server, ...authority, ...cluster } }],
		users: [{ name: "u", user }],
		contexts: [{ name: "x", context: { cluster: "c", user: "u" } }],
		"current-context": "x",
	};
	writeFileSync(path, JSON.stringify(config));
	return path;
}

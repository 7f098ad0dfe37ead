import { onTestFinished } from "vitest";
import { parseIpAddress } from "../../../../src/services/address.ts";
import type { Admission } from "../../../../src/services/admission.ts";
import type { EndpointSlice, NodeInfo, Service } from "../../../../src/services/objects.ts";
import { isPort } from "../../../../src/services/port.ts";
import type { Log } from "../../../../src/shared/log.ts";
import {
	type AdmitTable,
	createKubernetesSource,
	type KubernetesSourceOptions,
} from "../../../../src/sources/kubernetes/kubernetes-source.ts";
import type { ReflectorLimits } from "../../../../src/sources/kubernetes/limits.ts";
import { isRecord, metadataOf } from "../../../../src/sources/kubernetes/records.ts";
import type { Source } from "../../../../src/sources/source.ts";
import { type FakeApi, type FakeApiOptions, startFakeApi } from "../../../kit/fake-api/fake-api.ts";

/** The real bounds are for people; tests only keep their order. */
export const FAST: Partial<ReflectorLimits> = {
	listHeadersMs: 2_000,
	listIdleMs: 2_000,
	watchHeadersMs: 2_000,
	streamIdleMs: 300,
	watchIdleMs: 10_000,
	pingedWatchIdleMs: 10_000,
	shortWatchMs: 50,
	firstWaitMs: 5,
	maxWaitMs: 40,
};

export interface LogLine {
	readonly level: string;
	readonly message: string;
	readonly fields: Readonly<Record<string, unknown>>;
}

export function recordingLog(): Log & { readonly lines: LogLine[] } {
	const lines: LogLine[] = [];
	const at = (level: string) => (fields: object, message: string) => {
		lines.push({ level, message, fields: { ...fields } });
	};
	const log = {
		lines,
		error: at("error"),
		warn: at("warn"),
		info: at("info"),
		debug: at("debug"),
		isDebug: () => true,
		child: () => log,
	};
	return log;
}

/** Little more than the fields that these tests look at: the room is handed the real ones. */
export const plainAdmit: AdmitTable = {
	service: (raw) => {
		const spec = isRecord(raw) && isRecord(raw["spec"]) ? raw["spec"] : undefined;
		const ports = spec?.["ports"];
		if (!Array.isArray(ports)) return rejected("spec.ports", "wanted a list");
		const address = parseIpAddress(String(spec?.["clusterIP"]));
		return admitted<Service>({
			...identityOf(raw),
			kind: address === undefined ? "headless" : "addressed",
			proxyName: undefined,
			clusterIps: address === undefined ? [] : [address],
			ports: ports
				.filter(isRecord)
				.flatMap(({ name, port }) =>
					isPort(port) ? [{ name: String(name), port, protocol: "tcp" as const }] : [],
				),
			sessionAffinity: { type: "None" },
		});
	},
	endpointSlice: (raw) => {
		const endpoints = isRecord(raw) ? raw["endpoints"] : undefined;
		if (!Array.isArray(endpoints)) return rejected("endpoints", "wanted a list");
		const addresses = endpoints.flatMap((endpoint) =>
			isRecord(endpoint) && Array.isArray(endpoint["addresses"]) ? endpoint["addresses"] : [],
		);
		return admitted(sliceOf(raw, addresses));
	},
	endpoints: (raw) => {
		const subsets = isRecord(raw) && Array.isArray(raw["subsets"]) ? raw["subsets"] : [];
		const addresses = subsets.flatMap((subset) =>
			isRecord(subset) && Array.isArray(subset["addresses"])
				? subset["addresses"].map((address) => (isRecord(address) ? address["ip"] : ""))
				: [],
		);
		return admitted([sliceOf(raw, addresses)]);
	},
	node: (raw) => admitted<NodeInfo>({ name: identityOf(raw).name, zone: undefined, addresses: [] }),
};

function sliceOf(raw: unknown, addresses: readonly unknown[]): EndpointSlice {
	return {
		...identityOf(raw),
		serviceName: identityOf(raw).name,
		family: "ipv4",
		ports: [],
		endpoints: addresses.flatMap((text) => {
			const address = parseIpAddress(String(text));
			if (address === undefined) return [];
			const state = { ready: true, serving: true, terminating: false };
			return [{ address, ...state, nodeName: undefined, zone: undefined, podName: undefined }];
		}),
	};
}

function identityOf(raw: unknown): { namespace: string; name: string } {
	const { namespace, name } = metadataOf(raw);
	return { namespace: typeof namespace === "string" ? namespace : "", name: String(name) };
}

function admitted<T>(object: T): Admission<T> {
	return { admitted: true, object };
}

function rejected(field: string, message: string): Admission<never> {
	return { admitted: false, problems: [{ field, message }] };
}

/** Waits until a condition holds. @throws after five seconds, with what it was waiting for. */
export async function until(what: string, holds: () => boolean): Promise<void> {
	const endMs = performance.now() + 5_000;
	while (!holds()) {
		if (performance.now() > endMs) throw new Error(`Still not so after 5 s: ${what}`);
		// oxlint-disable-next-line no-await-in-loop -- this is the wait
		await new Promise((resolve) => setTimeout(resolve, 2));
	}
}

export interface Running {
	readonly source: Source;
	readonly log: ReturnType<typeof recordingLog>;
	/** How often onChange was called. */
	readonly changes: () => number;
	readonly abort: AbortController;
	/** "shop/cart": keys of the Services known. */
	services(): string[];
	/** "shop/cart": addresses of the slice's endpoints. */
	addresses(slice: string): string[];
}

/** A source that runs until the test is over. */
export function runSource(
	cluster: KubernetesSourceOptions["cluster"],
	more: Partial<KubernetesSourceOptions> & { readonly onChange?: () => void } = {},
): Running {
	const { onChange, limits, ...rest } = more;
	const log = recordingLog();
	const source = createKubernetesSource({
		cluster,
		nodeName: "node1",
		serviceProxyName: undefined,
		log,
		env: {},
		admit: plainAdmit,
		connectMs: 2_000,
		...rest,
		limits: { ...FAST, ...limits },
	});
	const abort = new AbortController();
	let changes = 0;
	source.start(() => {
		changes += 1;
		onChange?.();
	}, abort.signal);
	onTestFinished(async () => {
		abort.abort();
		await source.closed();
	});
	return {
		source,
		log,
		abort,
		changes: () => changes,
		services: () => [...source.snapshot().services.keys()],
		addresses: (slice) =>
			(source.snapshot().endpointSlices.get(slice)?.endpoints ?? []).map(({ address }) => address),
	};
}

/** A fake API server that lives until the test is over. */
export async function serveApi(options: FakeApiOptions = {}): Promise<FakeApi> {
	const api = await startFakeApi(options);
	onTestFinished(() => api.stop());
	return api;
}

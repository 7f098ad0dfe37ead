import { onTestFinished } from "vitest";
import type { Log } from "../../../../src/shared/log.ts";
import {
	createKubernetesSource,
	type KubernetesSourceOptions,
} from "../../../../src/sources/kubernetes/kubernetes-source.ts";
import type { ReflectorLimits } from "../../../../src/sources/kubernetes/limits.ts";
import type { Source } from "../../../../src/sources/source.ts";
import { type FakeApi, type FakeApiOptions, startFakeApi } from "../../../kit/fake-api/fake-api.ts";

/** The real bounds are for people; tests only keep their order. */
const FAST: Partial<ReflectorLimits> = {
	listHeadersMs: 4_000,
	listIdleMs: 4_000,
	watchHeadersMs: 4_000,
	streamIdleMs: 4_000,
	watchIdleMs: 10_000,
	nodeWatchIdleMs: 10_000,
	shortWatchMs: 50,
	firstWaitMs: 5,
	maxWaitMs: 40,
};

interface LogLine {
	readonly level: string;
	readonly message: string;
	readonly fields: Readonly<Record<string, unknown>>;
}

function recordingLog(): Log & { readonly lines: LogLine[] } {
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

/** Waits until a condition holds. @throws after ten seconds, with what it was waiting for. */
export async function until(what: string, holds: () => boolean): Promise<void> {
	const endMs = performance.now() + 10_000;
	while (!holds()) {
		if (performance.now() > endMs) throw new Error(`Still not so after 10 s: ${what}`);
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
		timing: { connectMs: 4_000 },
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

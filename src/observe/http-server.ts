import type { Log } from "../shared/log.ts";
import { RecurringFailure } from "../shared/recurring.ts";
import { type HealthRoutesOptions, healthRoutes } from "./health-routes.ts";
import { type HttpAddress, HttpListener } from "./http-listener.ts";
import { createRouter, type Route, send } from "./http-router.ts";
import { type StatusRoutesOptions, statusRoutes } from "./status-routes.ts";

export interface HttpServersOptions
	extends HealthRoutesOptions,
		Omit<StatusRoutesOptions, "signal"> {
	/** Undefined: not served. */
	readonly healthAddress: HttpAddress | undefined;
	readonly metricsAddress: HttpAddress | undefined;
	/** True: an address that cannot be bound rejects the start; false: it is tried again each 5 s. */
	readonly bindAddressHardFail: boolean;
	/** On each address at once; enough for probes, scrapes and people. */
	readonly maxConnections: number;
	readonly metrics: { readonly contentType: string; render(): Promise<string> };
	readonly log: Log;
	readonly bindRetryMs?: number;
}

export interface HttpServers {
	/** "0.0.0.0:10256"; undefined while it is not bound. */
	healthBoundTo(): string | undefined;
	metricsBoundTo(): string | undefined;
	/** Resolves within about half a second, with nothing left open. */
	close(): Promise<void>;
}

/**
 * Serves health on one address, metrics and status on the other. Resolves after the first try to
 * bind both.
 *
 * Rejects with `bindAddressHardFail` when one cannot be bound; nothing is open then.
 */
export async function startHttpServers(options: HttpServersOptions): Promise<HttpServers> {
	const abort = new AbortController();
	const listenerFor = (
		name: string,
		address: HttpAddress | undefined,
		routes: readonly (readonly [string, Route])[],
	): HttpListener | undefined =>
		address === undefined ? undefined : listen(name, address, { routes, options });
	const health = listenerFor("health", options.healthAddress, healthRoutes(options));
	const metrics = listenerFor("metrics", options.metricsAddress, [
		...metricsRoutes(options),
		...statusRoutes({ ...options, signal: abort.signal }),
	]);
	const close = async (): Promise<void> => {
		abort.abort();
		await Promise.all([health?.close(), metrics?.close()]);
	};
	try {
		await Promise.all([health?.open(), metrics?.open()]);
	} catch (error) {
		await close();
		throw error;
	}
	return {
		healthBoundTo: () => health?.boundTo(),
		metricsBoundTo: () => metrics?.boundTo(),
		close,
	};
}

function listen(
	name: string,
	address: HttpAddress,
	{
		routes,
		options,
	}: {
		readonly routes: readonly (readonly [string, Route])[];
		readonly options: HttpServersOptions;
	},
): HttpListener {
	const { log, bindAddressHardFail, maxConnections, bindRetryMs } = options;
	const failure = new RecurringFailure({
		log: log.child({ server: name }),
		failing: "cannot answer an HTTP request",
		recovered: "HTTP requests are answered again",
	});
	return new HttpListener({
		...address,
		name,
		handle: createRouter(new Map(routes), failure),
		hardFail: bindAddressHardFail,
		maxConnections,
		log,
		...(bindRetryMs === undefined ? {} : { bindRetryMs }),
	});
}

const PLAIN = { status: 200, contentType: "text/plain; charset=utf-8" };

/** kube-proxy's paths on its metrics address. */
function metricsRoutes({ metrics }: HttpServersOptions): readonly (readonly [string, Route])[] {
	return [
		[
			"/metrics",
			{
				get: async ({ response }) => {
					const body = await metrics.render();
					send(response, { status: 200, contentType: metrics.contentType, body });
				},
			},
		],
		// Byte for byte as kube-proxy has them, so without a line end.
		["/healthz", { get: ({ response }) => send(response, { ...PLAIN, body: "ok" }) }],
		["/proxyMode", { get: ({ response }) => send(response, { ...PLAIN, body: "userspace" }) }],
	];
}

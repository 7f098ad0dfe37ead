import { ApiError } from "./api-errors.ts";
import { readJson } from "./body.ts";
import type { ReflectorLimits } from "./limits.ts";
import type { ListInProgress } from "./object-store.ts";
import { metadataOf, resourceVersionOf } from "./records.ts";
import { requireItems } from "./require-kind.ts";
import { type Resource, selectorsOf } from "./resources.ts";
import type { ApiResponse, Transport } from "./transport.ts";

/** As client-go's pager. */
const PAGE_LIMIT = 500;
/** A million objects: beyond it the server gives the same continue token for ever. */
const MAX_PAGES = 2_000;
/** Lists begun anew because their continue token had become too old, before it is a failure. */
const MAX_RESTARTS = 3;

export interface ListOptions {
	readonly transport: Transport;
	readonly resource: Resource;
	/** At least this new; "0": whatever the server has at hand; "": the newest there is. */
	readonly resourceVersion: string;
	readonly limits: ReflectorLimits;
	readonly signal: AbortSignal;
}

export interface CompleteList {
	readonly list: ListInProgress;
	/** Where the watch has to begin. */
	readonly resourceVersion: string;
	readonly response: ApiResponse;
}

/**
 * Reads a whole collection page by page.
 *
 * A continue token that has become too old begins the list anew from the newest version: going on
 * with the token that the server offers instead would mix two moments.
 *
 * @param begin gives the place to collect in; called once for each try.
 * @throws {ApiError}
 */
export async function readList(
	options: ListOptions,
	begin: () => ListInProgress,
): Promise<CompleteList> {
	let { resourceVersion } = options;
	for (let restarts = 0; ; restarts += 1) {
		const list = begin();
		const outcome = await readPages({ ...options, resourceVersion }, list);
		if (outcome !== "token-expired") return outcome;
		if (restarts === MAX_RESTARTS)
			throw endlessError(options.resource, "becomes too old each time");
		resourceVersion = "";
	}
}

async function readPages(
	options: ListOptions,
	list: ListInProgress,
): Promise<CompleteList | "token-expired"> {
	let token = "";
	for (let pages = 0; pages < MAX_PAGES; pages += 1) {
		let page: Page;
		try {
			// oxlint-disable-next-line no-await-in-loop -- each page's token is in the page before
			page = await readPage(options, token);
		} catch (error) {
			if (token !== "" && refusesToken(error)) return "token-expired";
			throw error;
		}
		for (const item of page.items) list.put(item);
		if (page.token === "") {
			return { list, resourceVersion: page.resourceVersion, response: page.response };
		}
		token = page.token;
	}
	throw endlessError(options.resource, `has more than ${MAX_PAGES} pages`);
}

interface Page {
	readonly items: readonly unknown[];
	readonly resourceVersion: string;
	readonly token: string;
	readonly response: ApiResponse;
}

async function readPage(options: ListOptions, token: string): Promise<Page> {
	const { transport, resource, limits, signal, resourceVersion } = options;
	const query: Record<string, string> = { ...selectorsOf(resource), limit: `${PAGE_LIMIT}` };
	if (token !== "") query["continue"] = token;
	else if (resourceVersion !== "") query["resourceVersion"] = resourceVersion;
	const request = { verb: "list", resource, query, headersMs: limits.listHeadersMs } as const;
	const response = await transport.get(request, signal);
	const body = await readJson(response, {
		idleMs: () => limits.listIdleMs,
		totalMs: limits.listTotalMs,
		maxBytes: limits.maxPageBytes,
	});
	const items = requireItems(body, resource, response.asked);
	const next = metadataOf(body)["continue"];
	return {
		items,
		resourceVersion: resourceVersionOf(body),
		token: typeof next === "string" ? next : "",
		response,
	};
}

/** 410 for a token that is too old, 400 for one that the server cannot read. */
function refusesToken(error: unknown): boolean {
	if (!(error instanceof ApiError)) return false;
	return error.code === "expired" || (error.code === "status" && error.status === 400);
}

function endlessError(resource: Resource, how: string): ApiError {
	return new ApiError("bad-answer", `The API server's list of ${resource.plural} ${how}`);
}

import { createServer, type Server } from "node:http";
import type { FakeApi } from "./fake-api.ts";
import type { FaultRule } from "./faults.ts";
import type { ApiObject } from "./objects.ts";

/** What may be asked of a fake API server that runs in a process of its own. */
type Command =
	| { readonly do: "put"; readonly objects: readonly ApiObject[] }
	| {
			readonly do: "delete";
			readonly kind: string;
			readonly namespace: string;
			readonly name: string;
	  }
	/** Watches: of this kind, or all. */
	| { readonly do: "cut"; readonly plural?: string }
	| { readonly do: "end"; readonly plural?: string }
	/** `times` below zero: until "heal". */
	| { readonly do: "fail"; readonly rule: FaultRule }
	/** The whole server. "stop" resets its connections and listens no more. */
	| { readonly do: "heal" }
	| { readonly do: "compact" }
	| { readonly do: "silence" }
	| { readonly do: "speak" }
	| { readonly do: "stop" }
	| { readonly do: "start" }
	| { readonly do: "status" };

interface ControlStatus {
	readonly url: string;
	readonly version: number;
	readonly requests: number;
	readonly watches: number;
	readonly connections: number;
}

type Doer<C> = (api: FakeApi, command: C) => void | Promise<void>;

const doers: { readonly [K in Command["do"]]: Doer<Extract<Command, { readonly do: K }>> } = {
	put: (api, { objects }) => {
		for (const object of objects) api.put(object);
	},
	delete: (api, { kind, namespace, name }) => api.delete(kind, namespace, name),
	cut: (api, { plural }) => api.cutWatches(plural),
	end: (api, { plural }) => api.endWatches(plural),
	fail: (api, { rule }) => {
		const { times = 1 } = rule;
		api.failNext({ ...rule, times: times < 0 ? Number.POSITIVE_INFINITY : times });
	},
	heal: (api) => api.faults.clear(),
	compact: (api) => api.database.compact(),
	silence: (api) => api.silence(),
	speak: (api) => api.speak(),
	stop: (api) => api.stop(),
	start: (api) => api.start(),
	status: () => {},
};

function statusOf(api: FakeApi): ControlStatus {
	return {
		url: api.url,
		version: api.database.version,
		requests: api.requests.length,
		watches: api.openWatches.length,
		connections: api.connections,
	};
}

/** Takes commands as JSON over HTTP, each answered with the status after it. */
export function controlServer(api: FakeApi): Server {
	return createServer((request, response) => {
		const chunks: Buffer[] = [];
		request.on("error", () => {});
		response.on("error", () => {});
		request.on("data", (chunk: Buffer) => chunks.push(chunk));
		request.on("end", () => {
			const answer = (code: number, body: unknown) => {
				response.writeHead(code, { "content-type": "application/json" });
				response.end(JSON.stringify(body));
			};
			parseAndObey(api, Buffer.concat(chunks).toString()).then(
				(status) => answer(200, status),
				(error: unknown) => answer(400, { error: String(error) }),
			);
		});
	});
}

async function parseAndObey(api: FakeApi, text: string): Promise<ControlStatus> {
	// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a test's own command
	const command = (text === "" ? { do: "status" } : JSON.parse(text)) as Command;
	// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the table has the pairs right
	const doer = doers[command.do] as Doer<Command>;
	await doer(api, command);
	return statusOf(api);
}

import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { FaultRule } from "./fake-api/faults.ts";
import { COMPILED_PROGRAMS } from "./lab-command.ts";
import type { LabNamespace } from "./lab-namespace.ts";

const PROGRAM = fileURLToPath(new URL("fake-api.ts", import.meta.url));

/** A fake API server that runs in a namespace, told over HTTP what to do: see fake-api/control.ts. */
export interface LabApi {
	/** "http://127.0.0.1:6443": for `--master`. */
	readonly url: string;
	put(...objects: readonly unknown[]): Promise<void>;
	delete(kind: string, namespace: string, name: string): Promise<void>;
	/** "stop", "start", "cut", "silence", "speak", "compact", "heal": whatever takes no more words. */
	tell(what: string): Promise<void>;
	/** How requests fail from now on; see fake-api/faults.ts. */
	fail(rule: FaultRule): Promise<void>;
	/** What the server has seen. */
	status(): Promise<{ readonly watches: number; readonly requests: number }>;
}

export async function startLabApi(namespace: LabNamespace): Promise<LabApi> {
	const child = namespace.spawn(process.execPath, [PROGRAM], {
		stdio: ["ignore", "pipe", "inherit"],
		env: { NODE_COMPILE_CACHE: COMPILED_PROGRAMS },
	});
	if (child.stdout === null) throw new Error("Cannot read what the fake API server says");
	const [line] = (await once(createInterface({ input: child.stdout }), "line")) as [string];
	const { url, control } = JSON.parse(line) as { url: string; control: string };
	const agent = await namespace.agent();
	const send = async (command: object): Promise<string> => {
		const body = JSON.stringify(command);
		const answer = await agent.call("httpGet", { url: control, method: "POST", body });
		if (answer.status !== 200) throw new Error(`The fake API server: ${answer.body}`);
		return answer.body;
	};
	return {
		url,
		put: async (...objects) => void (await send({ do: "put", objects })),
		delete: async (kind, inNamespace, name) =>
			void (await send({ do: "delete", kind, namespace: inNamespace, name })),
		fail: async (rule) => void (await send({ do: "fail", rule })),
		tell: async (what) => void (await send({ do: what })),
		status: async () =>
			JSON.parse(await send({ do: "status" })) as { watches: number; requests: number },
	};
}

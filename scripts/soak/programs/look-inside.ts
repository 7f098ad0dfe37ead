import { createInterface } from "node:readline";

/*
 * Looks into the threads of a daemon that was started with `--inspect --expose-gc`: `look-inside.ts PORT`
 * beside it in its namespace. Each line of standard input is a question, and is answered by one line of JSON:
 *
 * - "heap": bytes in use of each thread, right after a collection, the main thread's first.
 * - "fail": makes one worker thread throw an error in its loop.
 */

const ANSWER_MS = 20_000;

/** The inspector's own collection waits for the event loop, and that of a worker does not turn. */
const HEAP = "gc(), process.memoryUsage().heapUsed";

/** Every turn of a worker's loop asks for the time. */
const FAIL = `{
	const { now } = performance;
	performance.now = () => {
		performance.now = now;
		throw new Error("the soak wants this worker to fail");
	};
	0;
}`;

interface Answer {
	readonly id?: number;
	readonly method?: string;
	readonly params?: { readonly sessionId?: string; readonly message?: string };
	readonly result?: { readonly result?: { readonly value?: unknown } };
	readonly error?: unknown;
}

/** Sends a command of the inspector's protocol to one thread. */
type Ask = (method: string, params?: object) => Promise<Answer>;

/** One connection to the inspector, for one question. */
class Inspector {
	readonly #socket: WebSocket;
	readonly #waiting = new Map<string, (answer: Answer) => void>();
	readonly #sessions: string[] = [];
	#lastId = 0;

	static async open(port: number): Promise<Inspector> {
		const response = await fetch(`http://127.0.0.1:${port}/json/list`);
		const [target] = (await response.json()) as { webSocketDebuggerUrl: string }[];
		const socket = new WebSocket(target?.webSocketDebuggerUrl ?? "");
		await within(
			new Promise((resolve, reject) => {
				socket.addEventListener("open", resolve);
				socket.addEventListener("error", reject);
			}),
			"the inspector",
		);
		return new Inspector(socket);
	}

	private constructor(socket: WebSocket) {
		this.#socket = socket;
		socket.addEventListener("message", ({ data }) => this.#take("", JSON.parse(String(data))));
	}

	readonly main: Ask = (method, params = {}) => this.#ask("", method, (command) => command, params);

	/** Those that run now. */
	async workers(): Promise<readonly Ask[]> {
		await this.main("NodeWorker.enable", { waitForDebuggerOnStart: false });
		return this.#sessions.map(
			(sessionId): Ask =>
				(method, params = {}) =>
					this.#ask(
						sessionId,
						method,
						(message) => {
							this.#lastId += 1;
							const id = this.#lastId;
							const forWorker = { sessionId, message };
							return JSON.stringify({
								id,
								method: "NodeWorker.sendMessageToWorker",
								params: forWorker,
							});
						},
						params,
					),
		);
	}

	close(): void {
		this.#socket.close();
	}

	async #ask(
		session: string,
		method: string,
		wrap: (command: string) => string,
		params: object,
	): Promise<Answer> {
		this.#lastId += 1;
		const id = this.#lastId;
		const answered = new Promise<Answer>((resolve) => {
			this.#waiting.set(`${session} ${id}`, resolve);
		});
		this.#socket.send(wrap(JSON.stringify({ id, method, params })));
		const answer = await within(answered, `${method} of thread "${session}"`);
		if (answer.error !== undefined) {
			throw new Error(`Cannot ${method}: ${JSON.stringify(answer.error)}`);
		}
		return answer;
	}

	#take(session: string, answer: Answer): void {
		const { id, method, params } = answer;
		if (id !== undefined) this.#waiting.get(`${session} ${id}`)?.(answer);
		const { sessionId, message } = params ?? {};
		if (method === "NodeWorker.attachedToWorker" && sessionId !== undefined) {
			this.#sessions.push(sessionId);
		}
		if (method === "NodeWorker.receivedMessageFromWorker" && message !== undefined) {
			this.#take(sessionId ?? "", JSON.parse(message) as Answer);
		}
	}
}

async function within<T>(promise: Promise<T>, what: string): Promise<T> {
	let timer: NodeJS.Timeout | undefined;
	const late = new Promise<never>((_, reject) => {
		timer = setTimeout(() => reject(new Error(`No answer of ${what}`)), ANSWER_MS);
	});
	try {
		return await Promise.race([promise, late]);
	} finally {
		clearTimeout(timer);
	}
}

async function heapOf(ask: Ask): Promise<number> {
	const { result } = await ask("Runtime.evaluate", { expression: HEAP });
	const bytes = result?.result?.value;
	if (typeof bytes !== "number") throw new Error(`Cannot tell the heap: got ${String(bytes)}`);
	return bytes;
}

async function answerTo(question: string, inspector: Inspector): Promise<unknown> {
	const workers = await inspector.workers();
	if (question === "heap") {
		const heaps: number[] = [];
		// oxlint-disable-next-line no-await-in-loop -- one collection at a time
		for (const ask of [inspector.main, ...workers]) heaps.push(await heapOf(ask));
		return heaps;
	}
	const [first] = workers;
	if (first === undefined) throw new Error("Cannot make a worker fail: there is none");
	await first("Runtime.evaluate", { expression: FAIL });
	return "told";
}

const port = Number(process.argv[2]);
for await (const question of createInterface({ input: process.stdin })) {
	const inspector = await Inspector.open(port);
	try {
		const gives = await answerTo(question, inspector);
		process.stdout.write(`${JSON.stringify({ gives })}\n`);
	} catch (error) {
		process.stdout.write(`${JSON.stringify({ failed: String(error) })}\n`);
	} finally {
		inspector.close();
	}
}

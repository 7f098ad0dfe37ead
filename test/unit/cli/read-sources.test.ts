import { describe, expect, test as it } from "vitest";
import { readSourceOnce } from "../../../src/cli/read-sources.ts";
import type { Source, SourceStatus } from "../../../src/sources/source.ts";
import { EMPTY_SNAPSHOT } from "./fake-host.ts";

const CALM: SourceStatus = {
	name: "kubernetes x",
	synced: false,
	freshAtMs: undefined,
	problem: undefined,
	rejected: [],
};

/** A source that is what the test says after its start. */
function source(after: Partial<SourceStatus>): { readonly source: Source; readonly log: string[] } {
	const log: string[] = [];
	let status = CALM;
	return {
		log,
		source: {
			name: CALM.name,
			start(onChange, signal) {
				signal.addEventListener("abort", () => log.push("aborted"));
				setImmediate(() => {
					status = { ...CALM, ...after };
					onChange();
				});
			},
			isSynced: () => status.synced,
			snapshot: () => EMPTY_SNAPSHOT,
			status: () => status,
			closed: () => {
				log.push("closed");
				return Promise.resolve();
			},
		},
	};
}

const never = new AbortController().signal;

describe("readSourceOnce()", () => {
	it("ends with the first complete state and leaves nothing open", async () => {
		const rejected = [{ object: "Service a/b", problems: ["bad", "worse"] }];
		const { source: one, log } = source({ synced: true, rejected });
		expect(await readSourceOnce(one, never)).toEqual({
			name: "kubernetes x",
			isComplete: true,
			problems: ["Service a/b is left out: bad; worse"],
			snapshot: EMPTY_SNAPSHOT,
		});
		expect(log).toEqual(["aborted", "closed"]);
	});

	it("ends with a problem that stays", async () => {
		const { source: one, log } = source({ problem: "401 Unauthorized" });
		const reading = await readSourceOnce(one, never, { patienceMs: 20 });
		expect(reading).toMatchObject({ isComplete: false, problems: ["401 Unauthorized"] });
		expect(log).toEqual(["aborted", "closed"]);
	});

	it("ends when the time is over or the caller has had enough", async () => {
		const late = await readSourceOnce(source({}).source, never, { timeoutMs: 20, patienceMs: 10 });
		expect(late.problems).toEqual(["no answer within 0 s"]);
		const abort = new AbortController();
		setImmediate(() => abort.abort());
		const left = await readSourceOnce(source({}).source, abort.signal, { patienceMs: 10 });
		expect(left.isComplete).toBe(false);
	});
});

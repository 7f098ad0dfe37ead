import { readFileSync } from "node:fs";
import { describe, expect, test as it } from "vitest";
import { toConnectionFields } from "../../../src/observe/connection-fields.ts";
import { HEALTH_PATHS } from "../../../src/observe/health.ts";
import { createMetrics } from "../../../src/observe/metrics.ts";
import { CONNECTIONS_LOG_PATH } from "../../../src/observe/status-routes.ts";
import {
	CONNECTION_EVENTS_PATH,
	CONNECTIONS_PATH,
	RECENT_CONNECTIONS_PATH,
	STATUS_PATH,
} from "../../../src/services/status.ts";
import { aRetriedRecord } from "./a-record.ts";
import { findLogFields } from "./log-fields.ts";

/** The compiler reads the whole program: 3 s on a machine that does nothing else. */
const COMPILE_TIMEOUT_MS = 120_000;

const read = (path: string): string =>
	readFileSync(new URL(`../../../${path}`, import.meta.url), "utf8");

const doc = read("docs/observing.md");
const missing = (names: Iterable<string>): string[] =>
	[...names].filter((name) => !doc.includes(`\`${name}\``));

describe("docs/observing.md", () => {
	it("names every metric of ours and of kube-proxy's", async () => {
		const metrics = createMetrics({
			version: "1.0.0",
			liveConnections: () => Promise.resolve([]),
			facts: () =>
				Promise.resolve({
					ready: true,
					sources: [],
					engine: undefined,
					servicePorts: 0,
					listenProblems: 0,
					conntrackDeletions: 0,
					logLinesDropped: 0,
					connectionLogLeftOut: 0,
				}),
		});
		const names = [...(await metrics.render()).matchAll(/^# TYPE kube_?(?:user)?proxy_(\w+)/gm)];
		expect(names.length).toBeGreaterThan(25);
		expect(missing(names.map(([, name]) => name ?? ""))).toEqual([]);
	});

	it("names every path", () => {
		expect(
			missing([
				...HEALTH_PATHS,
				"/metrics",
				"/proxyMode",
				STATUS_PATH,
				CONNECTIONS_PATH,
				RECENT_CONNECTIONS_PATH,
				CONNECTION_EVENTS_PATH,
				CONNECTIONS_LOG_PATH,
			]),
		).toEqual([]);
	});

	it("names every field of a connection, and every word that can stand in it", () => {
		const record = aRetriedRecord({ affinity: "kept", datagramsIn: 1, datagramsOut: 1 });
		const fields = Object.keys(toConnectionFields({ ...record, attemptCount: 17 }));
		const words = [...read("src/services/connection-record.ts").matchAll(/^\t\| "([a-z-]+)"/gm)];
		expect(words.length).toBeGreaterThan(20);
		expect(missing([...fields, ...words.map(([, word]) => word ?? "")])).toEqual([]);
	});

	it(
		"names every field of any log line",
		() => {
			const { fields, unknown } = findLogFields();
			// What hands on the fields of others.
			const handedOn = /^src\/(shared\/recurring|observe\/logger)\.ts:/;
			expect(unknown.filter((place) => !handedOn.test(place))).toEqual([]);
			expect(fields.size).toBeGreaterThan(50);
			const section = doc.split("\n## Log lines\n")[1]?.split("\n## HTTP paths\n")[0] ?? "";
			// Those are told apart by their ends.
			const named = [...fields].filter(([name]) => !/[a-z](Ms|S)$/.test(name));
			expect(named.filter(([name]) => !section.includes(`\`${name}\``))).toEqual([]);
		},
		COMPILE_TIMEOUT_MS,
	);
});

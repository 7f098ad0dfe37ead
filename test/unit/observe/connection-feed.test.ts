import { describe, expect, test as it } from "vitest";
import { ConnectionFeed } from "../../../src/observe/connection-feed.ts";
import type { ConnectionEvent } from "../../../src/services/status.ts";
import { aRecord, aStart } from "./a-record.ts";

describe("ConnectionFeed", () => {
	it("keeps the last records, oldest first", () => {
		const feed = new ConnectionFeed({ kept: 3 });
		expect(feed.recent()).toEqual([]);
		for (const id of ["1", "2"]) feed.ended(aRecord({ id }));
		expect(feed.recent().map(({ id }) => id)).toEqual(["1", "2"]);
		for (const id of ["3", "4", "5", "6", "7"]) feed.ended(aRecord({ id }));
		expect(feed.recent().map(({ id }) => id)).toEqual(["5", "6", "7"]);
	});

	it("tells watchers what begins and ends until they leave", () => {
		const feed = new ConnectionFeed({ clock: { wallMs: () => 77, monotonicMs: () => 1 } });
		const events: ConnectionEvent[] = [];
		const leave = feed.watch((event) => events.push(event));
		feed.started(aStart({ id: "9", protocol: "udp", service: "shop/dns" }));
		feed.ended(aRecord({ id: "9" }));
		leave?.();
		feed.ended(aRecord({ id: "10" }));
		expect(events).toMatchObject([
			{
				event: "started",
				atMs: 77,
				id: "9",
				protocol: "udp",
				service: "shop/dns",
				client: "10.1.0.2:41234",
			},
			{ event: "ended", record: { id: "9" } },
		]);
	});

	it("refuses more than 16 watchers", () => {
		const feed = new ConnectionFeed();
		const leaves = Array.from({ length: 16 }, () => feed.watch(() => {}));
		expect(leaves).not.toContain(undefined);
		expect(feed.watch(() => {})).toBeUndefined();
		leaves[0]?.();
		expect(feed.watch(() => {})).toBeDefined();
	});
});

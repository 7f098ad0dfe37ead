import { describe, expect, test as it } from "vitest";
import type { Service, Snapshot } from "../../../src/services/objects.ts";
import { mergeSnapshots } from "../../../src/sources/merge-snapshots.ts";
import { aService } from "../../kit/services.ts";

function aSnapshot(names: readonly string[], node?: string): Snapshot {
	const services = names.map((name): [string, Service] => [`shop/${name}`, aService({ name })]);
	return {
		services: new Map(services),
		endpointSlices: new Map(),
		serviceCidrs: new Map(),
		node:
			node === undefined
				? undefined
				: { name: node, zone: undefined, addresses: [], podRanges: [] },
	};
}

describe("mergeSnapshots()", () => {
	it("gives a single snapshot back as it is", () => {
		const snapshot = aSnapshot(["cart"]);
		expect(mergeSnapshots([snapshot]).snapshot).toBe(snapshot);
	});

	it("takes an object that two sources have from the first, and names it", () => {
		const first = aSnapshot(["cart"]);
		const second = aSnapshot(["cart", "pay"], "node1");
		const { snapshot, shadowed } = mergeSnapshots([first, second]);
		expect([...snapshot.services.keys()]).toEqual(["shop/cart", "shop/pay"]);
		expect(snapshot.services.get("shop/cart")).toBe(first.services.get("shop/cart"));
		expect(snapshot.node?.name).toBe("node1");
		expect(shadowed).toEqual(["Service shop/cart"]);
	});

	it("of no source makes an empty snapshot", () => {
		expect(mergeSnapshots([]).snapshot.services.size).toBe(0);
	});
});

import { describe, expect, test as it } from "vitest";
import {
	type ConntrackWish,
	isAsWanted,
	planConntrackSettings,
} from "../../../src/rules/conntrack-settings.ts";

/** kube-proxy's defaults. */
const DEFAULTS: ConntrackWish = {
	maxPerCore: 32_768,
	min: 131_072,
	tcpEstablishedS: 86_400,
	tcpCloseWaitS: 3600,
	tcpBeLiberal: false,
	udpS: 0,
	udpStreamS: 0,
};

function wantedBy(wish: Partial<ConntrackWish>, cpus = 2): Record<string, number> {
	const { size, others } = planConntrackSettings({ ...DEFAULTS, ...wish }, cpus);
	const settings = [...(size === undefined ? [] : [size.max, size.buckets]), ...others];
	return Object.fromEntries(settings.map(({ name, wanted }) => [name, wanted]));
}

describe("planConntrackSettings()", () => {
	it("wants kube-proxy's defaults (classic 9.7.6, 9.8.13)", () => {
		expect(wantedBy({})).toEqual({
			nf_conntrack_max: 131_072,
			"nf_conntrack hashsize": 32_768,
			nf_conntrack_tcp_timeout_established: 86_400,
			nf_conntrack_tcp_timeout_close_wait: 3600,
		});
	});

	it.each<[Partial<ConntrackWish>, number, number, string]>([
		[{}, 2, 131_072, "the minimum, with few CPUs"],
		[{}, 8, 262_144, "so many per CPU"],
		[{}, 512, 1_048_576, "no more than a million by CPUs"],
		[{ min: 2_000_000 }, 512, 2_000_000, "a higher minimum, which is the operator's word"],
		[{ min: 0, maxPerCore: 10 }, 3, 30, "a small number where that is asked for"],
	])("%j on %i CPUs: %i entries, %s (classic 9.7.5)", (wish, cpus, entries) => {
		expect(wantedBy(wish, cpus)).toMatchObject({
			nf_conntrack_max: entries,
			"nf_conntrack hashsize": Math.floor(entries / 4),
		});
	});

	it("leaves the table's size alone with 0 per CPU, whatever the minimum (classic 9.7.5)", () => {
		expect(Object.keys(wantedBy({ maxPerCore: 0, min: 9 }))).toEqual([
			"nf_conntrack_tcp_timeout_established",
			"nf_conntrack_tcp_timeout_close_wait",
		]);
	});

	it("leaves alone what is 0 or false, and everything if all is (classic 9.7.5)", () => {
		const nothing = { maxPerCore: 0, tcpEstablishedS: 0, tcpCloseWaitS: 0 };
		expect(wantedBy(nothing)).toEqual({});
		expect(wantedBy({ ...nothing, udpS: 30, udpStreamS: 120, tcpBeLiberal: true })).toEqual({
			nf_conntrack_udp_timeout: 30,
			nf_conntrack_udp_timeout_stream: 120,
			nf_conntrack_tcp_be_liberal: 1,
		});
	});
});

describe("isAsWanted()", () => {
	const { size, others } = planConntrackSettings(DEFAULTS, 2);

	it("of the table's size, a higher value is", () => {
		if (size === undefined) throw new Error("no size");
		expect(isAsWanted(size.max, 131_071)).toBe(false);
		expect(isAsWanted(size.max, 131_072)).toBe(true);
		expect(isAsWanted(size.max, 999_999)).toBe(true);
		expect(isAsWanted(size.buckets, 32_767)).toBe(false);
		expect(isAsWanted(size.buckets, 65_536)).toBe(true);
	});

	it("of the table's size, no limit at all is", () => {
		if (size === undefined) throw new Error("no size");
		expect(isAsWanted(size.max, 0)).toBe(true);
	});

	it("of a timeout, only the same is", () => {
		const [established] = others;
		if (established === undefined) throw new Error("no timeout");
		expect(isAsWanted(established, 432_000)).toBe(false);
		expect(isAsWanted(established, 600)).toBe(false);
		expect(isAsWanted(established, 86_400)).toBe(true);
	});
});

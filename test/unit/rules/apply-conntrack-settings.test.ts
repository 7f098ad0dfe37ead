import { describe, expect, test as it } from "vitest";
import {
	applyConntrackSettings,
	lookAtConntrackSettings,
} from "../../../src/rules/apply-conntrack-settings.ts";
import type { ConntrackWish } from "../../../src/rules/conntrack-settings.ts";
import {
	CLOSE_WAIT,
	ESTABLISHED,
	FakeSettingFiles,
	HASHSIZE,
	MAX,
} from "../../kit/setting-files.ts";

const WISH: ConntrackWish = {
	maxPerCore: 32_768,
	min: 131_072,
	tcpEstablishedS: 86_400,
	tcpCloseWaitS: 3600,
	tcpBeLiberal: false,
	udpS: 0,
	udpStreamS: 0,
};

describe("applyConntrackSettings()", () => {
	it("writes what differs, says from what to what, and the second time nothing", () => {
		const files = new FakeSettingFiles();
		expect(applyConntrackSettings(WISH, 2, files)).toEqual({
			changed: [
				{ setting: "nf_conntrack_max", from: 65_536, to: 131_072 },
				{ setting: "nf_conntrack hashsize", from: 16_384, to: 32_768 },
				{ setting: "nf_conntrack_tcp_timeout_established", from: 432_000, to: 86_400 },
				{ setting: "nf_conntrack_tcp_timeout_close_wait", from: 60, to: 3600 },
			],
			failed: [],
		});
		expect(files.written).toEqual([
			`${MAX}=131072`,
			`${HASHSIZE}=32768`,
			`${ESTABLISHED}=86400`,
			`${CLOSE_WAIT}=3600`,
		]);
		expect(applyConntrackSettings(WISH, 2, files)).toEqual({ changed: [], failed: [] });
		expect(files.written).toHaveLength(4);
	});

	it("does not lower a table that an operator made larger", () => {
		const files = new FakeSettingFiles({ [MAX]: 500_000, [HASHSIZE]: 125_000 });
		applyConntrackSettings(WISH, 2, files);
		expect(files.values.get(MAX)).toBe(500_000);
		expect(files.values.get(HASHSIZE)).toBe(125_000);
	});

	it("gives a large table its buckets, where somebody forgot them", () => {
		const files = new FakeSettingFiles({ [MAX]: 500_000, [HASHSIZE]: 1000 });
		applyConntrackSettings(WISH, 2, files);
		expect(files.values.get(HASHSIZE)).toBe(32_768);
	});

	it("touches nothing that is to be left alone", () => {
		const files = new FakeSettingFiles();
		const nothing = { ...WISH, maxPerCore: 0, tcpEstablishedS: 0, tcpCloseWaitS: 0 };
		expect(applyConntrackSettings(nothing, 2, files)).toEqual({ changed: [], failed: [] });
		expect(files.written).toEqual([]);
	});

	it("in a network namespace tells of the size, sets the rest, and keeps off the host's buckets", () => {
		const files = new FakeSettingFiles();
		files.locked.set(MAX, "EACCES");
		expect(applyConntrackSettings(WISH, 2, files)).toEqual({
			changed: [
				expect.objectContaining({ setting: "nf_conntrack_tcp_timeout_established" }),
				expect.objectContaining({ setting: "nf_conntrack_tcp_timeout_close_wait" }),
			],
			failed: [
				{
					setting: "nf_conntrack_max",
					wanted: 131_072,
					found: 65_536,
					problem: "EACCES",
					leaveAlone: "--conntrack-max-per-core 0",
				},
			],
		});
		expect(files.values.get(HASHSIZE)).toBe(16_384);
	});

	it("in a network namespace whose host is large enough has nothing to tell, and no buckets to set", () => {
		const files = new FakeSettingFiles({ [MAX]: 500_000 });
		files.locked.set(MAX, "EACCES");
		expect(applyConntrackSettings(WISH, 2, files).failed).toEqual([]);
		expect(files.values.get(HASHSIZE)).toBe(16_384);
	});

	it("goes on after a file that looks writable and is not", () => {
		const files = new FakeSettingFiles();
		files.refusing.set(HASHSIZE, "EOPNOTSUPP");
		const { changed, failed } = applyConntrackSettings(WISH, 2, files);
		expect(failed).toEqual([expect.objectContaining({ problem: "EOPNOTSUPP", found: 16_384 })]);
		expect(changed).toHaveLength(3);
	});

	it("does not set the buckets when the size was refused after all", () => {
		const files = new FakeSettingFiles();
		files.refusing.set(MAX, "EPERM");
		expect(applyConntrackSettings(WISH, 2, files).failed).toHaveLength(1);
		expect(files.values.get(HASHSIZE)).toBe(16_384);
	});

	it("tells what is not there, as where the kernel tracks nothing", () => {
		const files = new FakeSettingFiles();
		files.values.clear();
		const { changed, failed } = applyConntrackSettings(WISH, 2, files);
		expect(changed).toEqual([]);
		expect(failed.map(({ setting, problem, found }) => [setting, problem, found])).toEqual([
			["nf_conntrack_max", "ENOENT", undefined],
			["nf_conntrack_tcp_timeout_established", "ENOENT", undefined],
			["nf_conntrack_tcp_timeout_close_wait", "ENOENT", undefined],
		]);
	});
});

describe("lookAtConntrackSettings()", () => {
	it("says how each stands and writes nothing", () => {
		const files = new FakeSettingFiles({ [CLOSE_WAIT]: 3600 });
		files.locked.set(ESTABLISHED, "EROFS");
		const looks = lookAtConntrackSettings(WISH, 2, files);
		expect(looks.map(({ setting, state }) => [setting.name, state])).toEqual([
			["nf_conntrack_max", "to-write"],
			["nf_conntrack hashsize", "to-write"],
			["nf_conntrack_tcp_timeout_established", "locked"],
			["nf_conntrack_tcp_timeout_close_wait", "right"],
		]);
		expect(files.written).toEqual([]);
	});
});

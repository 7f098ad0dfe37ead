import { expect, test as it } from "vitest";
import { judgeConntrackSettings } from "../../../src/cli/judge-conntrack-settings.ts";
import { lookAtConntrackSettings } from "../../../src/rules/apply-conntrack-settings.ts";
import { CLOSE_WAIT, ESTABLISHED, FakeSettingFiles, MAX } from "../../kit/setting-files.ts";
import { configOf, inputs } from "../config/inputs.ts";

const { conntrack } = configOf(inputs());
const judgeOn = (files: FakeSettingFiles) =>
	judgeConntrackSettings(lookAtConntrackSettings(conntrack, 2, files));

it("judgeConntrackSettings() says what run is going to change, and from what", () => {
	const files = new FakeSettingFiles({ [MAX]: 500_000, [CLOSE_WAIT]: 3600 });
	files.values.set("/sys/module/nf_conntrack/parameters/hashsize", 125_000);
	expect(judgeOn(files)).toEqual([
		{
			state: "good",
			text: "run sets nf_conntrack_tcp_timeout_established from 432000 to 86400",
		},
	]);
	files.values.set(ESTABLISHED, 86_400);
	expect(judgeOn(files)).toEqual([{ state: "good", text: "connection tracking is as wanted" }]);
});

it("judgeConntrackSettings() says in one note what cannot be set, and what to do", () => {
	const files = new FakeSettingFiles({ [CLOSE_WAIT]: 3600 });
	files.locked.set(MAX, "EACCES");
	files.locked.set(ESTABLISHED, "EACCES");
	expect(judgeOn(files)).toEqual([
		{
			state: "note",
			text: "this process may not set nf_conntrack_max (wanted 131072, found 65536, EACCES), nf_conntrack_tcp_timeout_established (wanted 86400, found 432000, EACCES)",
			remedy:
				"set them on the host, or leave them alone: --conntrack-max-per-core 0 --conntrack-tcp-timeout-established 0",
		},
	]);
});

it("judgeConntrackSettings() does not complain of a kernel that has not loaded it yet", () => {
	const files = new FakeSettingFiles();
	files.values.clear();
	expect(judgeOn(files)).toEqual([
		{
			state: "good",
			text: expect.stringMatching(
				/^the kernel tracks no connections yet; .*nf_conntrack_max to 131072/,
			),
		},
	]);
});

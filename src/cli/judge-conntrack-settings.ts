import type { SettingState } from "../rules/apply-conntrack-settings.ts";
import { good, type Judgement, note } from "./judgement.ts";

/** Pure. What `run` would do about the kernel's connection tracking, and what it could not. */
export function judgeConntrackSettings(looks: readonly SettingState[]): readonly Judgement[] {
	if (looks.length === 0) return [good("connection tracking is left as it is")];
	const changes = looks.flatMap((look) =>
		look.state === "to-write"
			? [`${look.setting.name} from ${look.found} to ${look.setting.wanted}`]
			: [],
	);
	const absent = looks.filter(isAbsent);
	const judgements = [
		...(changes.length > 0 ? [good(`run sets ${changes.join(", ")}`)] : []),
		...(absent.length > 0 ? [judgeAbsent(absent)] : []),
		...judgeLocked(looks.filter((look) => isLocked(look) && !isAbsent(look))),
	];
	return judgements.length > 0 ? judgements : [good("connection tracking is as wanted")];
}

function isLocked({ state }: SettingState): boolean {
	return state === "locked" || state === "unknown";
}

/** The files come with the kernel's module, and that with the first rules. */
function isAbsent(look: SettingState): boolean {
	return look.state === "unknown" && look.problem === "ENOENT";
}

function judgeAbsent(looks: readonly SettingState[]): Judgement {
	const names = looks.map(({ setting }) => `${setting.name} to ${setting.wanted}`);
	return good(
		`the kernel tracks no connections yet; once it does, run sets what differs (${names.join(", ")})`,
	);
}

function judgeLocked(looks: readonly SettingState[]): readonly Judgement[] {
	if (looks.length === 0) return [];
	const told = looks.map((look) => {
		const found = "found" in look ? String(look.found) : "unknown";
		const problem = "problem" in look ? `, ${look.problem}` : "";
		return `${look.setting.name} (wanted ${look.setting.wanted}, found ${found}${problem})`;
	});
	const flags = [...new Set(looks.map(({ setting }) => setting.leaveAlone))].join(" ");
	return [
		note(
			`this process may not set ${told.join(", ")}`,
			`set them on the host, or leave them alone: ${flags}`,
		),
	];
}

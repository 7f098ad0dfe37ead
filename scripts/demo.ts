/**
 * `npm run demo`: the main job on a real kernel, told in plain words. Everything that it claims is checked
 * against what happened; exit status 1 when one claim did not hold.
 */
import { namespaceNames } from "../test/kit/lab-sweep.ts";
import { type Story, showAffinity, showDaemon, showTcp, showUdp } from "./demo/acts.ts";
import { showKill, showLog, showReturn, showStop } from "./demo/failure-acts.ts";
import { explain, holdIfPrivate, standUp, takeDown } from "./demo/kept-lab.ts";
import { buildLab, startShowDaemon } from "./demo/setting.ts";
import { Stage } from "./demo/stage.ts";

const HELP = `npm run demo               shows the main job, leaves nothing behind
npm run demo -- --keep     the same, and leaves a lab up to play with
npm run demo -- --down     takes the kept lab down`;

const LAB_PICTURE = [
	"client 10.1.0.2 ────┐                    ┌──── ep1 10.2.1.2",
	"                    │                    │",
	"                  node: kube-userproxy ──┼──── ep2 10.2.2.2",
	"                    │                    │",
	"outside 10.3.0.2 ───┘                    └──── ep3 10.2.3.2",
];

// Nobody reads on (`| head`): the lab goes with the process.
process.stdout.on("error", () => process.exit(1));

const [option = ""] = process.argv.slice(2);
if (option === "--help") console.log(HELP);
else if (option === "--down") {
	console.log(takeDown() ? "The kept lab is gone." : "There was no kept lab.");
} else if (option === "" || option === "--keep") {
	process.exitCode = (await show(option === "--keep")) ? 0 : 1;
} else {
	console.error(`Unknown option "${option}"\n\n${HELP}`);
	process.exitCode = 2;
}

async function show(keep: boolean): Promise<boolean> {
	const startedAt = performance.now();
	const stage = new Stage();
	try {
		await play(stage);
	} catch (error) {
		stage.claim("the demo could be shown to its end", false, String(error));
	}
	const left = namespaceNames().filter((name) => name.startsWith(`kup-${process.pid}-`));
	stage.claim("nothing of the lab is left on this machine", left.length === 0, left);
	const allHeld = stage.verdict((performance.now() - startedAt) / 1000);
	if (!keep) return allHeld;
	await standUp();
	explain(stage);
	await holdIfPrivate();
	return allHeld;
}

async function play(stage: Stage): Promise<void> {
	stage.title("kube-userproxy: Kubernetes Services without IPVS, and without a cluster here");
	stage.tell(`A Service is one address for many machines. This shows a node that serves three of them,
		on a real kernel, with real connections. Each line with a ✓ was checked.`);
	stage.scene("The lab");
	stage.tell(`Network namespaces: each has interfaces, routes and packet rules of its own, as a host has.
		Nothing outside them is touched.`);
	const lab = await buildLab();
	try {
		stage.show(...LAB_PICTURE);
		const setting = await startShowDaemon(lab);
		const story: Story = { webRequests: 0, cartEndpoint: "" };
		await showDaemon(stage, setting);
		await showTcp(stage, setting, story);
		await showUdp(stage, setting);
		await showAffinity(stage, setting, story);
		await showKill(stage, setting, story);
		await showLog(stage, setting, story);
		await showReturn(stage, setting, story);
		await showStop(stage, setting);
	} finally {
		await lab.close();
	}
}

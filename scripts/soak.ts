/**
 * `npm run soak`: mixed traffic through the daemon for minutes, on a real kernel, and then a verdict: is
 * its memory steady, are its descriptors back, is every byte accounted for, was no error logged. Exit
 * status 1 when one of that is not so.
 */
import { parseArgs } from "node:util";
import { RELAY_ENGINES } from "../test/kit/relay-engines.ts";
import { Stage } from "./demo/stage.ts";
import { type SoakOptions, soak } from "./soak/soak.ts";

const HELP = `npm run soak                               10 minutes through --relay syscall
npm run soak -- --minutes 2                as long as that, at least 2
npm run soak -- --engine stream            through the other engine
npm run soak -- --seed 7                   the same changes and sizes once more`;

/** In less the daemon does little but warm up. */
const MIN_MINUTES = 2;

// Nobody reads on (`| head`): the lab goes with the process.
process.stdout.on("error", () => process.exit(1));

process.exitCode = await main();

async function main(): Promise<number> {
	let options: SoakOptions | undefined;
	try {
		options = parseOptions();
	} catch (error) {
		console.error(`${error instanceof Error ? error.message : String(error)}\n\n${HELP}`);
		return 2;
	}
	if (options === undefined) {
		console.log(HELP);
		return 0;
	}
	const startedAtMs = performance.now();
	const stage = new Stage();
	try {
		await soak(stage, options);
	} catch (error) {
		stage.claim("the soak came to its end", false, String(error));
	}
	return stage.verdict((performance.now() - startedAtMs) / 1000) ? 0 : 1;
}

/** @returns undefined where only help is wanted. @throws what is wrong with them. */
function parseOptions(): SoakOptions | undefined {
	const { values } = parseArgs({
		options: {
			minutes: { type: "string", default: "10" },
			engine: { type: "string", default: "syscall" },
			seed: { type: "string", default: String(Math.floor(Math.random() * 2 ** 31)) },
			help: { type: "boolean", default: false },
		},
	});
	if (values.help) return undefined;
	const minutes = Number(values.minutes);
	const seed = Number(values.seed);
	const engine = RELAY_ENGINES.find((name) => name === values.engine);
	if (engine === undefined) throw new TypeError(`No such engine: ${values.engine}`);
	if (!(minutes >= MIN_MINUTES)) {
		throw new TypeError(`--minutes ${values.minutes}: wanted at least ${MIN_MINUTES}`);
	}
	if (!Number.isInteger(seed)) throw new TypeError(`--seed ${values.seed}: wanted a whole number`);
	return { minutes, engine, seed };
}

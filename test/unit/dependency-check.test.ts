import { execFile } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test as it } from "vitest";

const root = fileURLToPath(new URL("../../", import.meta.url));

/** One import that must not be, and the rule that has to name it. */
const PLANTED: readonly (readonly [file: string, imports: string, rule: string])[] = [
	["src/shared/a.ts", "../services/good.ts", "shared-arrows"],
	["src/services/a.ts", "../config/good.ts", "services-arrows"],
	["src/config/a.ts", "../rules/good.ts", "config-arrows"],
	["src/sources/a.ts", "../rules/good.ts", "sources-arrows"],
	["src/balancing/a.ts", "../proxies/good.ts", "balancing-arrows"],
	["src/proxies/a.ts", "../sources/good.ts", "proxies-arrows"],
	["src/rules/a.ts", "../proxies/good.ts", "rules-arrows"],
	["src/observe/a.ts", "../proxies/good.ts", "observe-arrows"],
	["src/daemon/a.ts", "../cli/good.ts", "daemon-arrows"],
	["src/cli/a.ts", "../proxies/good.ts", "cli-arrows"],
	["src/attic/a.ts", "../shared/good.ts", "rooms-are-on-the-map"],
	["src/services/b.ts", "node:net", "services-are-pure"],
	["src/rules/b.ts", "undici", "undici-has-one-owner"],
	["src/proxies/b.ts", "pino", "pino-has-one-owner"],
	["src/daemon/b.ts", "execa", "execa-has-one-owner"],
	["src/observe/b.ts", "node:dgram", "builtin-dgram"],
	["src/rules/c.ts", "node:net", "builtin-net"],
	["src/proxies/c.ts", "node:child_process", "builtin-child_process"],
	["src/balancing/b.ts", "node:http", "builtin-http-https-http2"],
	["src/daemon/c.ts", "../../test/kit.ts", "src-stands-alone"],
	["src/shared/b.ts", "vitest", "no-dev-dependencies"],
	["src/config/b.ts", "./c.ts", "no-cycles"],
	["src/config/c.ts", "./b.ts", "no-cycles"],
	["src/observe/c.ts", "./missing.ts", "no-broken-imports"],
];

describe("the dependency check", () => {
	let folder: string;
	let output: string;

	beforeAll(async () => {
		folder = mkdtempSync(join(tmpdir(), "kup-arrows-"));
		for (const name of [".dependency-cruiser.cjs", "rooms.json", "tsconfig.json", "package.json"]) {
			cpSync(join(root, name), join(folder, name));
		}
		symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
		const write = (path: string, text: string): void => {
			mkdirSync(dirname(join(folder, path)), { recursive: true });
			writeFileSync(join(folder, path), text);
		};
		for (const [file, imports] of PLANTED) {
			write(file, `import * as it from "${imports}";\nexport const x = it;\n`);
			write(join(dirname(file), "good.ts"), "export type Good = 1;\n");
		}
		write("test/kit.ts", "export const y = 1;\n");
		write("src/observe/lonely.ts", "export const z = 1;\n");
		output = await cruise(folder);
	});
	afterAll(() => {
		rmSync(folder, { recursive: true, force: true });
	});

	it.each(PLANTED)("%s importing %s breaks the rule %s", (file, _imports, rule) => {
		const lines = output.split("\n").filter((line) => line.includes(`error ${rule}: `));
		const blocks = rule === "no-cycles" ? [output] : lines;
		expect(lines).not.toEqual([]);
		expect(blocks.some((line) => line.includes(file))).toBe(true);
	});

	it("a file that nobody imports breaks the rule no-orphans", () => {
		expect(output).toMatch(/error no-orphans: src\/observe\/lonely\.ts/);
	});
});

/** What dependency-cruiser says; it ends with the number of errors as its status. */
function cruise(folder: string): Promise<string> {
	return new Promise((resolve, reject) => {
		execFile(
			process.execPath,
			[join(root, "node_modules/dependency-cruiser/bin/dependency-cruiser.mjs"), "src"],
			{ cwd: folder, env: { ...process.env, NO_COLOR: "1" }, timeout: 60_000 },
			(error, stdout) => {
				if (error === null) reject(new Error(`no violation was found:\n${stdout}`));
				else resolve(stdout);
			},
		);
	});
}

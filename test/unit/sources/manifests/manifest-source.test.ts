import {
	appendFileSync,
	type FSWatcher,
	mkdirSync,
	renameSync,
	rmSync,
	symlinkSync,
	utimesSync,
	watch,
	writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { systemClock } from "../../../../src/shared/clock.ts";
import { aFolder, aService, aSource, eventually, writeConfigMap } from "./source-kit.ts";

describe("a manifest source that is started", () => {
	it("delivers what a folder holds, once, and is synced and fresh then", async () => {
		const folder = aFolder();
		writeFileSync(join(folder, "b.yaml"), aService("b"));
		writeFileSync(join(folder, "a.yml"), aService("a"));
		writeFileSync(join(folder, ".hidden.yaml"), aService("hidden"));
		writeFileSync(join(folder, "notes.txt"), aService("notes"));
		const { source, services, changes } = aSource([folder]);
		expect(source.isSynced()).toBe(false);
		await eventually(() => expect(source.isSynced()).toBe(true));
		expect(services()).toEqual(["shop/a", "shop/b"]);
		expect(changes()).toBeGreaterThan(0);
		expect(source.status()).toMatchObject({ synced: true, problem: undefined, rejected: [] });
		expect(source.status().freshAtMs).toBeGreaterThan(Date.now() - 60_000);
	});

	it("is synced with an empty folder", async () => {
		const { source, changes } = aSource([aFolder()]);
		await eventually(() => expect(source.isSynced()).toBe(true));
		expect(changes()).toBe(1);
	});

	it("is not synced before every path is there, and says at error which one is not", async () => {
		const folder = aFolder();
		const late = join(folder, "late");
		writeFileSync(join(folder, "a.yaml"), aService("a"));
		const { source, services, lines } = aSource([join(folder, "a.yaml"), late]);
		await eventually(() => expect(services()).toEqual(["shop/a"]));
		expect(source.isSynced()).toBe(false);
		expect(source.status().freshAtMs).toBeUndefined();
		expect(source.status().problem).toContain(`${late} is not there`);
		expect(lines.filter(({ level }) => level === "error")).toMatchObject([
			{ fields: { path: late, error: "is not there" } },
		]);
		mkdirSync(late);
		writeFileSync(join(late, "b.yaml"), aService("b"));
		await eventually(() => expect(source.isSynced()).toBe(true));
		expect(services()).toEqual(["shop/a", "shop/b"]);
		expect(source.status().problem).toBeUndefined();
	});

	it("is not synced before a named file is read that a named folder reads already", async () => {
		const folder = aFolder();
		const late = join(folder, "late.yaml");
		const { source, services } = aSource([folder, late]);
		await eventually(() => expect(source.status().problem).toContain("late.yaml is not there"));
		writeFileSync(late, aService("b"));
		await eventually(() => expect(source.isSynced()).toBe(true));
		expect(services()).toEqual(["shop/b"]);
	});

	it("reads nothing and closes at once when the signal has aborted already", async () => {
		const { source, stop } = aSource([aFolder()]);
		await stop();
		await expect(source.closed()).resolves.toBeUndefined();
		expect(source.isSynced()).toBe(false);
	});
});

describe("a manifest source that watches", () => {
	it("takes over an edit, also one that truncates and writes", async () => {
		const file = join(aFolder(), "a.yaml");
		writeFileSync(file, aService("a"));
		const { services } = aSource([file]);
		await eventually(() => expect(services()).toEqual(["shop/a"]));
		writeFileSync(file, aService("b"));
		await eventually(() => expect(services()).toEqual(["shop/b"]));
	});

	it("never takes what is half written for the whole", async () => {
		const folder = aFolder();
		const file = join(folder, "a.yaml");
		const whole = `${aService("a")}---\n${aService("b")}`;
		writeFileSync(file, whole);
		const { source, services } = aSource([folder], { timing: { settleMs: 400 } });
		await eventually(() => expect(services()).toHaveLength(2));
		const writtenAtMs = Date.now();
		writeFileSync(file, aService("a"));
		// It has looked at the first half, and may only have waited.
		await eventually(() => expect(source.status().freshAtMs).toBeGreaterThan(writtenAtMs));
		expect(services()).toHaveLength(2);
		appendFileSync(file, `---\n${aService("b")}---\n${aService("c")}`);
		await eventually(() => expect(services()).toHaveLength(3));
		expect(source.status().problem).toBeUndefined();
	});

	it("takes over an atomic rename", async () => {
		const folder = aFolder();
		writeFileSync(join(folder, "a.yaml"), aService("a"));
		const { services } = aSource([folder]);
		await eventually(() => expect(services()).toEqual(["shop/a"]));
		writeFileSync(join(folder, ".a.yaml.swp"), aService("b"));
		renameSync(join(folder, ".a.yaml.swp"), join(folder, "a.yaml"));
		await eventually(() => expect(services()).toEqual(["shop/b"]));
	});

	it("takes over added files and lets go of what removed ones held", async () => {
		const folder = aFolder();
		writeFileSync(join(folder, "a.yaml"), aService("a"));
		const { services } = aSource([folder]);
		await eventually(() => expect(services()).toEqual(["shop/a"]));
		writeFileSync(join(folder, "b.json"), aServiceJson("b"));
		await eventually(() => expect(services()).toEqual(["shop/a", "shop/b"]));
		rmSync(join(folder, "a.yaml"));
		await eventually(() => expect(services()).toEqual(["shop/b"]));
	});

	it("takes over a mounted ConfigMap whose data link is swapped, as a folder and as one file", async () => {
		const mount = aFolder();
		writeConfigMap(mount, "1", { "a.yaml": aService("a") });
		symlinkSync("..data/a.yaml", join(mount, "a.yaml"));
		const folder = aSource([mount]);
		const file = aSource([join(mount, "a.yaml")]);
		await eventually(() => expect(folder.services()).toEqual(["shop/a"]));
		await eventually(() => expect(file.services()).toEqual(["shop/a"]));
		writeConfigMap(mount, "2", { "a.yaml": aService("b") });
		await eventually(() => expect(folder.services()).toEqual(["shop/b"]));
		await eventually(() => expect(file.services()).toEqual(["shop/b"]));
		expect(folder.source.status().problem).toBeUndefined();
	});

	it("takes over a folder that is a link and is swapped, and watches the new one", async () => {
		const parent = aFolder();
		for (const name of ["one", "two"]) {
			mkdirSync(join(parent, name));
			writeFileSync(join(parent, name, "a.yaml"), aService(name));
		}
		const link = join(parent, "current");
		symlinkSync("one", link);
		const { services } = aSource([link]);
		await eventually(() => expect(services()).toEqual(["shop/one"]));
		symlinkSync("two", join(parent, "next"));
		renameSync(join(parent, "next"), link);
		await eventually(() => expect(services()).toEqual(["shop/two"]));
		writeFileSync(join(parent, "two", "b.yaml"), aService("b"));
		await eventually(() => expect(services()).toEqual(["shop/two", "shop/b"]));
	});

	it("keeps the last state of a path that is away, says so, and goes on when it is back", async () => {
		const folder = join(aFolder(), "manifests");
		mkdirSync(folder);
		writeFileSync(join(folder, "a.yaml"), aService("a"));
		const { source, services, lines } = aSource([folder]);
		await eventually(() => expect(services()).toEqual(["shop/a"]));
		rmSync(folder, { recursive: true });
		await eventually(() => expect(source.status().problem).toContain("its last state stays"));
		expect(services()).toEqual(["shop/a"]);
		expect(source.isSynced()).toBe(true);
		mkdirSync(folder);
		writeFileSync(join(folder, "b.yaml"), aService("b"));
		await eventually(() => expect(services()).toEqual(["shop/b"]));
		expect(source.status().problem).toBeUndefined();
		expect(lines).toContainEqual(
			expect.objectContaining({ level: "info", message: "manifests can be looked at again" }),
		);
	});

	it("is as fresh as the last look that found its paths", async () => {
		const folder = join(aFolder(), "manifests");
		mkdirSync(folder);
		writeFileSync(join(folder, "a.yaml"), aService("a"));
		let looks = 0;
		const clock = {
			...systemClock,
			wallMs: () => {
				looks += 1;
				return looks;
			},
		};
		const { source } = aSource([folder], { clock, timing: { pollMs: 10 } });
		await eventually(() => expect(source.status().freshAtMs).toBeGreaterThan(3));
		rmSync(folder, { recursive: true });
		await eventually(() => expect(source.status().problem).toContain("is not there"));
		const { freshAtMs } = source.status();
		const looksBefore = looks;
		await eventually(() => expect(looks).toBeGreaterThan(looksBefore + 3));
		expect(source.status().freshAtMs).toBe(freshAtMs);
		mkdirSync(folder);
		await eventually(() => expect(source.status().freshAtMs).toBeGreaterThan(looksBefore));
	});

	it("tells no change when a file is touched and says the same", async () => {
		const folder = aFolder();
		writeFileSync(join(folder, "a.yaml"), aService("a"));
		const { source, changes, services } = aSource([folder]);
		await eventually(() => expect(source.isSynced()).toBe(true));
		const before = source.snapshot();
		utimesSync(join(folder, "a.yaml"), 1, 1);
		writeFileSync(join(folder, "b.yaml"), aService("b"));
		await eventually(() => expect(services()).toHaveLength(2));
		expect(changes()).toBe(2);
		expect(source.snapshot().services.get("shop/a")).toBe(before.services.get("shop/a"));
	});

	it("finds changes by polling where nothing can be watched, and says that once", async () => {
		const folder = aFolder();
		const limit = Object.assign(new Error("ENOSPC: no space left"), { code: "ENOSPC" });
		const { services, lines } = aSource([folder], {
			timing: { pollMs: 20 },
			watch: () => {
				throw limit;
			},
		});
		writeFileSync(join(folder, "a.yaml"), aService("a"));
		await eventually(() => expect(services()).toEqual(["shop/a"]));
		writeFileSync(join(folder, "a.yaml"), aService("b"));
		await eventually(() => expect(services()).toEqual(["shop/b"]));
		const warnings = lines.filter(({ level }) => level === "warn");
		expect(warnings).toHaveLength(1);
		expect(warnings[0]?.fields["error"]).toContain("fs.inotify.max_user_watches");
	});

	it("reads everything again when it is asked to", async () => {
		const folder = aFolder();
		const { source, services } = aSource([folder], { watch: deafWatch });
		await eventually(() => expect(source.isSynced()).toBe(true));
		writeFileSync(join(folder, "a.yaml"), aService("a"));
		source.refresh?.();
		await eventually(() => expect(services()).toEqual(["shop/a"]));
	});

	it("says nothing and hears nothing after the abort", async () => {
		const folder = aFolder();
		const { source, changes, stop } = aSource([folder]);
		await eventually(() => expect(source.isSynced()).toBe(true));
		await stop();
		writeFileSync(join(folder, "a.yaml"), aService("a"));
		source.refresh?.();
		await eventually(() => expect(process.getActiveResourcesInfo()).not.toContain("FSEventWrap"));
		expect(changes()).toBe(1);
	});
});

describe("a manifest source with something bad", () => {
	it("names file, document, line and field, keeps the last good state, and tells the recovery", async () => {
		const folder = aFolder();
		const file = join(folder, "a.yaml");
		writeFileSync(join(folder, "z.yaml"), aService("z"));
		writeFileSync(file, `${aService("a")}---\n${aService("b")}`);
		const { source, services, lines } = aSource([folder]);
		await eventually(() => expect(services()).toEqual(["shop/a", "shop/b", "shop/z"]));

		writeFileSync(file, `${aService("a")}---\n${aService("c", 70_000)}`);
		await eventually(() => expect(source.status().rejected).toHaveLength(1));
		expect(services()).toEqual(["shop/a", "shop/b", "shop/z"]);
		const told = "spec.ports[0].port: wanted an integer in 1..65535, got 70000";
		expect(source.status().rejected).toEqual([
			{ object: `Service shop/c (${file}, document 2)`, problems: [`line 13: ${told}`] },
		]);
		const errors = () => lines.filter(({ level }) => level === "error");
		expect(errors()).toMatchObject([
			{
				fields: {
					file,
					lastStateKept: true,
					error: `document 2, line 13: Service shop/c: ${told}`,
				},
			},
		]);

		writeFileSync(join(folder, "z.yaml"), aService("y"));
		await eventually(() => expect(services()).toEqual(["shop/a", "shop/b", "shop/y"]));
		writeFileSync(file, aService("c"));
		await eventually(() => expect(services()).toEqual(["shop/c", "shop/y"]));
		expect(errors()).toHaveLength(1);
		expect(lines).toContainEqual(
			expect.objectContaining({ message: "manifest has recovered", level: "info" }),
		);
		expect(source.status()).toMatchObject({ problem: undefined, rejected: [] });
	});

	it("takes the good objects of a file that never was good", async () => {
		const file = join(aFolder(), "a.yaml");
		writeFileSync(file, `${aService("a")}---\n${aService("b", 0)}---\n[\n---\n${aService("c")}`);
		const { source, services } = aSource([file]);
		await eventually(() => expect(source.isSynced()).toBe(true));
		expect(services()).toEqual(["shop/a", "shop/c"]);
		expect(source.status().rejected).toHaveLength(2);
	});

	it("takes the first of two objects with one name and warns once", async () => {
		const folder = aFolder();
		writeFileSync(join(folder, "a.yaml"), aService("x", 1));
		writeFileSync(join(folder, "b.yaml"), `${aService("y")}---\n${aService("x", 2)}`);
		const { source, services, lines } = aSource([folder, join(folder, "b.yaml")]);
		await eventually(() => expect(source.isSynced()).toBe(true));
		writeFileSync(join(folder, "c.yaml"), aService("z"));
		await eventually(() => expect(services()).toContain("shop/z"));
		expect(source.snapshot().services.get("shop/x")?.ports[0]?.port).toBe(1);
		expect(lines.filter(({ level }) => level === "warn")).toMatchObject([
			{
				fields: {
					object: "Service shop/x",
					used: `${join(folder, "a.yaml")}, document 1`,
					leftOut: `${join(folder, "b.yaml")}, document 2`,
				},
			},
		]);
	});

	it("says at debug which other kinds it ignores, one line per kind and file", async () => {
		const file = join(aFolder(), "a.yaml");
		const other = "---\napiVersion: apps/v1\nkind: Deployment\n";
		writeFileSync(file, other + other + aService("a").replace(/^/, "---\n"));
		const { source, services, lines } = aSource([file]);
		await eventually(() => expect(source.isSynced()).toBe(true));
		expect(services()).toEqual(["shop/a"]);
		expect(lines.filter(({ level }) => level === "debug")).toMatchObject([
			{ fields: { file, kind: "Deployment apps/v1", count: 2 } },
		]);
	});

	it("goes on when whoever listens throws, and says so", async () => {
		const folder = aFolder();
		const { lines, services } = aSource([folder], {}, () => {
			throw new TypeError("a bug");
		});
		writeFileSync(join(folder, "a.yaml"), aService("a"));
		await eventually(() => expect(services()).toEqual(["shop/a"]));
		expect(lines).toContainEqual(
			expect.objectContaining({ level: "error", message: "change handler failing" }),
		);
	});
});

function deafWatch(): FSWatcher {
	return watch(tmpdir(), { persistent: false });
}

function aServiceJson(name: string): string {
	return JSON.stringify({
		apiVersion: "v1",
		kind: "Service",
		metadata: { name, namespace: "shop" },
		spec: { clusterIP: "10.96.0.11", ports: [{ port: 80 }] },
	});
}

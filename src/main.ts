#!/usr/bin/env node
import process from "node:process";

// Before anything that takes time to load. SIGUSR1 is the connection log's, and until somebody listens
// for it Node opens its debugger on it. (--disable-sigusr1 would block the signal.) SIGHUP and SIGUSR2
// would end the daemon; they must not, and do end every other command (a terminal that is closed).
const early = new Set<NodeJS.Signals>();
const kept: readonly NodeJS.Signals[] =
	process.argv[2] === "run" ? ["SIGUSR1", "SIGUSR2", "SIGHUP"] : ["SIGUSR1"];
for (const name of kept) process.on(name, () => early.add(name));

/** For what may keep the process from ending once everything is over: a bug must not hang a command. */
const LINGER_MS = 5_000;

// A reader that goes away (`status | head`) is no failure of ours.
for (const stream of [process.stdout, process.stderr]) {
	stream.on("error", (error: NodeJS.ErrnoException) => {
		if (error.code !== "EPIPE") throw error;
	});
}

const { processHost } = await import("./cli/process-host.ts");
const { runCli } = await import("./cli/program.ts");
process.exitCode = await runCli(process.argv.slice(2), processHost(early));
setTimeout(() => process.exit(), LINGER_MS).unref();

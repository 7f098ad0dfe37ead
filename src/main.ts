#!/usr/bin/env node
import process from "node:process";

// SIGUSR1 is the connection log's. Until somebody listens for it Node opens its debugger on it, so
// this comes before anything that takes time to load. (--disable-sigusr1 would block the signal.)
process.on("SIGUSR1", () => {});

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
process.exitCode = await runCli(process.argv.slice(2), processHost());
setTimeout(() => process.exit(), LINGER_MS).unref();

#!/usr/bin/env -S node --disable-sigusr1
// SIGUSR1 is the connection log's; without the flag it opens Node's debugger until run listens for it.
import process from "node:process";
import { processHost } from "./cli/process-host.ts";
import { runCli } from "./cli/program.ts";

/** For what may keep the process from ending once everything is over: a bug must not hang a stop. */
const LINGER_MS = 5_000;

// A reader that goes away (`status | head`) is no failure of ours.
for (const stream of [process.stdout, process.stderr]) {
	stream.on("error", (error: NodeJS.ErrnoException) => {
		if (error.code !== "EPIPE") throw error;
	});
}

process.exitCode = await runCli(process.argv.slice(2), processHost());
setTimeout(() => process.exit(), LINGER_MS).unref();

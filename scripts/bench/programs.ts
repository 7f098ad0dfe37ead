import { fileURLToPath } from "node:url";

/** The path of a program that runs inside a namespace of the lab. */
export function benchProgram(name: "idle-load" | "udp-echo" | "udp-load"): string {
	return fileURLToPath(new URL(`programs/${name}.ts`, import.meta.url));
}

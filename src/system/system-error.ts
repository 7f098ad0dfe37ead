import { getSystemErrorName } from "node:util";

/** "ECONNREFUSED" for -111: what a call of libc.ts returned. */
export function codeOf(result: number): string {
	return getSystemErrorName(result);
}

/** What Node would throw for a failed call. */
export function systemError(syscall: string, result: number): NodeJS.ErrnoException {
	const code = codeOf(result);
	return Object.assign(new Error(`${syscall} ${code}`), { code, errno: result, syscall });
}

/** @throws what Node would throw where a call has failed. */
export function must(syscall: string, result: number): number {
	if (result < 0) throw systemError(syscall, result);
	return result;
}

/** @throws where a call has failed, and where it has given something else. */
export function mustBe(syscall: string, result: number, wanted: number): void {
	if (must(syscall, result) !== wanted) {
		throw new Error(`${syscall} gave ${result}, not ${wanted}`);
	}
}

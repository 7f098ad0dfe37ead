let given = 0;

/**
 * A loopback address that no other test has, in this process or another: a port that was free a moment
 * ago need not be free any more, but every port of such an address is.
 */
export function aLoopbackAddress(): string {
	given += 1;
	return `127.${64 + ((process.pid >> 8) % 128)}.${process.pid % 256}.${given}`;
}

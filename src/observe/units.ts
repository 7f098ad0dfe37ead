/** "312 B", "4.1 kB", "1.2 MB": powers of 1,000, as network people count. */
export function humanBytes(bytes: number): string {
	const units = ["B", "kB", "MB", "GB", "TB"];
	let value = bytes;
	let unit = 0;
	while (value >= 999.95 && unit < units.length - 1) {
		value /= 1_000;
		unit += 1;
	}
	return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`;
}

/** "0.4 ms", "12 ms", "3.4 s", "2 min 5 s", "3 h 7 min". */
export function humanDuration(ms: number): string {
	if (ms < 9.95) return `${Math.round(ms * 10) / 10} ms`;
	if (ms < 999.5) return `${Math.round(ms)} ms`;
	if (ms < 59_950) return `${(ms / 1_000).toFixed(1)} s`;
	const seconds = Math.round(ms / 1_000);
	if (seconds < 3_600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
	return `${Math.floor(seconds / 3_600)} h ${Math.floor((seconds % 3_600) / 60)} min`;
}

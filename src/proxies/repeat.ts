/** Runs something again and again, without keeping the process alive. @returns ends that. */
export function repeat(periodMs: number, run: () => void): () => void {
	const timer = setInterval(run, periodMs).unref();
	return () => clearInterval(timer);
}

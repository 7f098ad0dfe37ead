/** Does one thing after the other, in the order in which they were asked for. */
export class Turns {
	#last: Promise<unknown> = Promise.resolve();

	/** @returns what the work comes to, once all that was asked for before it is over. */
	async take<T>(work: () => Promise<T>): Promise<T> {
		const turn = this.#last.then(work, work);
		this.#last = turn.catch(() => {});
		return await turn;
	}
}

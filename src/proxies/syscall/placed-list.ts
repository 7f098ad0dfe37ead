/** Something that knows where in the list it is; the list keeps that. */
export interface Placed {
	place: number;
}

/**
 * Things that come and go by the thousand a second, in no order.
 *
 * No Set: V8 makes the table of one anew after so many changes, and a dropped table that has grown old keeps
 * what was in it, and the table after it, until the next full collection.
 */
export class PlacedList<Item extends Placed> {
	readonly #items: Item[] = [];

	get size(): number {
		return this.#items.length;
	}

	add(item: Item): void {
		item.place = this.#items.push(item) - 1;
	}

	/** @param item one that is in it. */
	remove(item: Item): void {
		const last = this.#items.pop();
		if (last === undefined || last === item) return;
		this.#items[item.place] = last;
		last.place = item.place;
	}

	/** @param visit may remove the item that it is told of. */
	visitAll(visit: (item: Item) => void): void {
		// From the end: where one goes, the last takes its place, which has been visited.
		for (let place = this.#items.length - 1; place >= 0; place -= 1) {
			const item = this.#items[place];
			if (item !== undefined) visit(item);
		}
	}
}

import type { DescriptorBudget } from "./descriptor-budget.ts";

/** A client that has waited so long for its turn has most likely given up. A guess. */
const MAX_WAIT_MS = 10_000;

/** The client's leg and the endpoint's. */
const PER_CONNECTION = 2;

/** A connection that asks to be let in. */
export interface Applicant {
	/**
	 * False at first; {@link TcpAdmission} keeps it: a set of all would be made anew again and again, and what
	 * V8 drops of it holds on to what was in it.
	 */
	isAdmitted: boolean;
	/** Its turn has come: dial. */
	start(): void;
	/** There is no room: end. */
	refuse(): void;
}

export interface TcpAdmissionOptions {
	readonly budget: DescriptorBudget;
	/**
	 * For connections that wait, one each; their descriptors are outside the budget. Where several
	 * threads share it, those of all wait for the same room.
	 */
	readonly waitingRoom: DescriptorBudget;
	/** Connections that may be dialing at once; further ones are refused. */
	readonly maxDialing: number;
	/** Monotonic milliseconds. */
	readonly now: () => number;
	/** Called when new connections have to wait and none did before. */
	onPaused(): void;
	/**
	 * Called when there is room and others than ours wait, too: who is next is to be told by
	 * {@link TcpAdmission.letInOne}.
	 */
	onRoom?(): void;
}

/**
 * Which accepted connections may go on to dial, so that the process never runs out of descriptors.
 *
 * When the budget is used up, new ones wait in order, unread, until others end; when the waiting
 * room is full too, or the wait is long, they are refused. What is relayed already goes on.
 * Nobody overtakes those who wait, in whichever thread.
 */
export class TcpAdmission {
	readonly #options: TcpAdmissionOptions;
	/** Since when each waits, in the order in which they came. */
	readonly #waiting = new Map<Applicant, number>();
	#dialing = 0;
	#isLettingIn: boolean = false;

	constructor(options: TcpAdmissionOptions) {
		this.#options = options;
	}

	/** Applicants that wait. */
	get waiting(): number {
		return this.#waiting.size;
	}

	/** True while new connections wait for others to end, here or in another thread. */
	get isPaused(): boolean {
		return this.#options.waitingRoom.used > 0;
	}

	/** Starts the applicant, lets it wait or refuses it. */
	apply(applicant: Applicant): void {
		const { budget, waitingRoom, now } = this.#options;
		if (!this.isPaused && budget.tryTake(PER_CONNECTION)) {
			this.#admit(applicant);
			return;
		}
		if (!this.isPaused) this.#options.onPaused();
		if (!waitingRoom.tryTake(1)) {
			applicant.refuse();
			return;
		}
		this.#waiting.set(applicant, now());
		// Another thread may have given back what it had just before it could see that somebody waits.
		if (budget.used + PER_CONNECTION <= budget.limit) this.#passOnRoom();
	}

	/** The dialing of an applicant that was started is over, however. */
	dialed(): void {
		this.#dialing -= 1;
	}

	/** The applicant has ended, in whatever state. */
	left(applicant: Applicant): void {
		if (this.#leaveRoom(applicant) || !applicant.isAdmitted) return;
		applicant.isAdmitted = false;
		this.#options.budget.give(PER_CONNECTION);
		this.#passOnRoom();
	}

	/** There is room for one, and it is our turn. */
	letInOne(): void {
		if (this.#waiting.size > 0) this.#letIn(1);
		else this.#passOnRoom();
	}

	/** To be called about once a second. */
	sweep(): void {
		// Flows use the budget too, so there may be room that nobody told of.
		this.#letIn();
		for (const [applicant, sinceMs] of this.#waiting) {
			if (this.#options.now() - sinceMs < MAX_WAIT_MS) return;
			applicant.refuse();
		}
	}

	#leaveRoom(applicant: Applicant): boolean {
		const hasWaited = this.#waiting.delete(applicant);
		if (hasWaited) this.#options.waitingRoom.give(1);
		return hasWaited;
	}

	#passOnRoom(): void {
		if (this.#options.waitingRoom.used > this.#waiting.size) this.#options.onRoom?.();
		else this.#letIn();
	}

	#letIn(atMost = Number.POSITIVE_INFINITY): void {
		// One that is let in may end at once and so call this again: the loop below goes on anyway.
		if (this.#isLettingIn) return;
		this.#isLettingIn = true;
		let count = 0;
		for (const applicant of this.#waiting.keys()) {
			if (count >= atMost || !this.#options.budget.tryTake(PER_CONNECTION)) break;
			count += 1;
			this.#leaveRoom(applicant);
			this.#admit(applicant);
		}
		this.#isLettingIn = false;
	}

	/** With the descriptors taken. */
	#admit(applicant: Applicant): void {
		if (this.#dialing >= this.#options.maxDialing) {
			this.#options.budget.give(PER_CONNECTION);
			applicant.refuse();
			return;
		}
		applicant.isAdmitted = true;
		this.#dialing += 1;
		applicant.start();
	}
}

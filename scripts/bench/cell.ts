import type { Figures } from "./figures.ts";

/** What one measurement of one contender in one round gave. */
export interface Cell {
	/** From 1. */
	readonly round: number;
	readonly measurement: string;
	readonly contender: string;
	/** Empty where it failed. */
	readonly figures: Figures;
	/** Why there are no figures. */
	readonly failure?: string;
	readonly footing: CellFooting;
}

/** What else was going on at that moment, each a share (0 to 1) or a number of sockets. */
export interface CellFooting {
	/** Of all processors, used by others just before the contender was started. */
	readonly otherLoad: number;
	/** Of all processors, taken by other guests of the machine during the measurement. */
	readonly stolen: number;
	/** Ports of the client that were in TIME_WAIT at the end. */
	readonly clientTimeWait: number;
	/** Ports of the node, towards the endpoint, that were in TIME_WAIT at the end. */
	readonly nodeTimeWait: number;
	/** Of the table of connection tracking, in use at the end. */
	readonly conntrack: number;
}

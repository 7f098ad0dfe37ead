import { parseIpAddress } from "../../src/services/address.ts";
import { isInAnyRange, parseIpRange } from "../../src/services/ip-range.ts";
import type { ScenarioObject, ScenarioStep } from "./scenario-schema.ts";

/** The objects of a scenario that are there after a step. */
export class ScenarioState {
	readonly #objects: Readonly<Record<string, ScenarioObject>>;
	/** By kind and name: the label of the object in the file. */
	readonly #present = new Map<string, string>();

	constructor(objects: Readonly<Record<string, ScenarioObject>>) {
		this.#objects = objects;
	}

	/** @returns what of the step cannot be done. */
	take(step: ScenarioStep): readonly string[] {
		const problems: string[] = [];
		for (const label of step.delete ?? []) {
			const object = this.#objects[label];
			const isThere = object !== undefined && this.#present.delete(identityOf(label, object));
			if (!isThere) problems.push(`cannot delete "${label}": it is not there`);
		}
		for (const label of step.apply ?? []) {
			const object = this.#objects[label];
			if (object === undefined) problems.push(`cannot apply "${label}": objects has no such one`);
			else this.#present.set(identityOf(label, object), label);
		}
		return problems;
	}

	/** Label and object of all that are there. */
	all(): readonly (readonly [label: string, object: ScenarioObject])[] {
		return [...this.#present.values()].flatMap((label) => {
			const object = this.#objects[label];
			return object === undefined ? [] : [[label, object] as const];
		});
	}

	hasService(name: string): boolean {
		return this.#present.has(`Service ${name}`);
	}

	/** True for the ClusterIP of a Service, and for what is dropped, for an address of a ServiceCIDR. */
	hasClusterIp(text: string, expectation: "refused" | "dropped"): boolean {
		const objects = this.all().map(([, object]) => object);
		if (expectation === "refused") {
			return objects.some(
				(object) => object.kind === "Service" && object.spec.clusterIPs?.includes(text) === true,
			);
		}
		const address = parseIpAddress(text);
		const ranges = objects.flatMap((object) =>
			object.kind === "ServiceCIDR" ? object.cidrs.map((cidr) => parseIpRange(cidr)) : [],
		);
		return (
			address !== undefined &&
			isInAnyRange(
				address,
				ranges.filter((range) => range !== undefined),
			)
		);
	}

	/** Every number at which a Service could be reached. */
	ports(): ReadonlySet<number> {
		const services = this.all().flatMap(([, object]) => (object.kind === "Service" ? object : []));
		return new Set(
			services.flatMap(({ spec }) =>
				spec.ports.flatMap(({ port, nodePort }) => [
					port,
					...(nodePort === undefined ? [] : [nodePort]),
				]),
			),
		);
	}

	/** "ep1", of every slice. */
	endpoints(): ReadonlySet<string> {
		return new Set(
			this.all().flatMap(([, object]) =>
				object.kind === "EndpointSlice" ? object.endpoints.map(({ at }) => at) : [],
			),
		);
	}
}

/** Two labels may stand for two states of one object. */
export function identityOf(label: string, object: ScenarioObject): string {
	switch (object.kind) {
		case "Node":
			return "Node";
		case "ServiceCIDR":
			return `ServiceCIDR ${label}`;
		case "Service":
		case "EndpointSlice":
			return `${object.kind} ${object.name ?? label}`;
	}
}

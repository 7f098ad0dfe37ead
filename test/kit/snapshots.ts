import type { Admission } from "../../src/services/admission.ts";
import { describeProblem } from "../../src/services/admission.ts";
import { admitEndpointSlice } from "../../src/services/admit-endpoint-slice.ts";
import { admitService } from "../../src/services/admit-service.ts";
import { objectKey, type Snapshot } from "../../src/services/objects.ts";

/** What was admitted; fails the test with the problems otherwise. */
export function admitted<T>(admission: Admission<T>): T {
	if (admission.admitted) return admission.object;
	throw new TypeError(`not admitted: ${admission.problems.map(describeProblem).join("; ")}`);
}

/** The problems as text; none when it was admitted. */
export function problemsOf(admission: Admission<unknown>): string[] {
	return admission.admitted ? [] : admission.problems.map(describeProblem);
}

/** A snapshot of raw Services and EndpointSlices, which must be good. */
export function snapshotOf(
	services: readonly unknown[],
	slices: readonly unknown[] = [],
): Snapshot {
	return {
		services: new Map(
			services.map((raw) => admitted(admitService(raw))).map((each) => [objectKey(each), each]),
		),
		endpointSlices: new Map(
			slices.map((raw) => admitted(admitEndpointSlice(raw))).map((each) => [objectKey(each), each]),
		),
		serviceCidrs: new Map(),
		node: undefined,
	};
}

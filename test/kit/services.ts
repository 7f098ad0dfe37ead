import { admitService } from "../../src/services/admit-service.ts";
import type { Service } from "../../src/services/objects.ts";
import { rawService } from "./raw-objects.ts";
import { admitted } from "./snapshots.ts";

/** A Service as it was admitted, with other values in some fields. */
export function aService(fields: Partial<Service> = {}): Service {
	return { ...admitted(admitService(rawService())), ...fields };
}

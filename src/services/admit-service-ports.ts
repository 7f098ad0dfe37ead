import { type FieldProblems, isNoItem, type RawObject } from "./field-problems.ts";
import { isDnsLabel } from "./names.ts";
import type { Service, ServicePortSpec, ServiceProtocol } from "./objects.ts";
import { isPort, type Port } from "./port.ts";

/** The API has no limit of its own; an object that etcd holds has fewer. */
const MAX_PORTS = 5_000;

/** `spec.ports` as the API would take it. */
export function readServicePorts(
	spec: RawObject,
	kind: Service["kind"],
	problems: FieldProblems,
): readonly ServicePortSpec[] {
	const items = problems.list("spec.ports", spec["ports"], MAX_PORTS);
	if (isNoItem(spec["ports"]) && kind === "addressed") {
		problems.add("spec.ports", "at least one port", spec["ports"]);
	}
	const ports = items.flatMap((item, index) => readPort(`spec.ports[${index}]`, item, problems));
	checkUnique(ports, problems);
	return ports;
}

function readPort(field: string, item: unknown, problems: FieldProblems): ServicePortSpec[] {
	const object = problems.object(field, item);
	if (object === undefined) return [];
	const name = readPortName(`${field}.name`, object["name"], problems);
	const protocol = readProtocol(`${field}.protocol`, object["protocol"], problems);
	const port = object["port"];
	if (!isPort(port)) {
		problems.add(`${field}.port`, "an integer in 1..65535", port);
		return [];
	}
	return [{ name, protocol, port, nodePort: readNodePort(field, object["nodePort"], problems) }];
}

function readNodePort(field: string, value: unknown, problems: FieldProblems): Port | undefined {
	if (value === undefined || value === null || value === 0) return undefined;
	if (isPort(value)) return value;
	problems.add(`${field}.nodePort`, "an integer in 1..65535", value);
	return undefined;
}

/** @returns "" for a port without a name. */
export function readPortName(field: string, value: unknown, problems: FieldProblems): string {
	const name = problems.string(field, value, "");
	if (name === "" || isDnsLabel(name)) return name;
	problems.add(field, "a DNS label in lower case", value);
	return "";
}

export function readProtocol(
	field: string,
	value: unknown,
	problems: FieldProblems,
): ServiceProtocol {
	const protocol = problems.oneOf(field, value, ["TCP", "UDP", "SCTP"], "TCP");
	return protocol === "TCP" ? "tcp" : protocol === "UDP" ? "udp" : "sctp";
}

function checkUnique(ports: readonly ServicePortSpec[], problems: FieldProblems): void {
	const names = new Set<string>();
	const numbers = new Set<string>();
	for (const [index, { name, protocol, port }] of ports.entries()) {
		if (name === "" && ports.length > 1) {
			problems.addText(`spec.ports[${index}].name`, "wanted a name, as there are several ports");
		} else if (names.has(name)) {
			problems.add(`spec.ports[${index}].name`, "a name that no other port has", name);
		}
		const number = `${protocol} ${port}`;
		if (numbers.has(number)) {
			problems.add(`spec.ports[${index}]`, "a port that is not there already", number);
		}
		names.add(name);
		numbers.add(number);
	}
}

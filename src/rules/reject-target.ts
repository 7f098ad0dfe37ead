import type { IpFamily } from "../services/address.ts";

/** The target that refuses a new flow at once; a client sees "connection refused". */
export function rejectTarget(protocol: "tcp" | "udp" | "any", family: IpFamily): string {
	if (protocol === "tcp") return "REJECT --reject-with tcp-reset";
	return family === "ipv4"
		? "REJECT --reject-with icmp-port-unreachable"
		: "REJECT --reject-with icmp6-port-unreachable";
}

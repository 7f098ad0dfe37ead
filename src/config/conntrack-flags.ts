import { flag } from "./flag-spec.ts";
import { integer, kernelTimeout, truth } from "./values.ts";

/** nf_conntrack_max is an int. */
const MAX_ENTRIES = 2_147_483_647;

/** The rows of the flag table for the kernel's connection tracking; names, defaults and meaning are kube-proxy's. */
export const conntrackFlags = {
	"conntrack-max-per-core": flag({
		group: "Connection tracking",
		kubeProxy: true,
		placeholder: "NUMBER",
		default: "32768",
		help: "nf_conntrack_max, the connections that the kernel tracks at most, is raised to this per CPU, 1048576 in all; it is never lowered; 0: left alone",
		parse: integer(0, MAX_ENTRIES),
	}),
	"conntrack-min": flag({
		group: "Connection tracking",
		kubeProxy: true,
		placeholder: "NUMBER",
		default: "131072",
		help: "nf_conntrack_max is raised to this at least, however few the CPUs; without effect if --conntrack-max-per-core is 0",
		parse: integer(0, MAX_ENTRIES),
	}),
	"conntrack-tcp-timeout-established": flag({
		group: "Connection tracking",
		kubeProxy: true,
		placeholder: "DURATION",
		default: "24h",
		help: "the kernel forgets an established TCP connection that is silent this long; 0: left alone",
		parse: kernelTimeout("24h"),
	}),
	"conntrack-tcp-timeout-close-wait": flag({
		group: "Connection tracking",
		kubeProxy: true,
		placeholder: "DURATION",
		default: "1h",
		help: "the kernel forgets a TCP connection that only one side has closed after this; 0: left alone",
		parse: kernelTimeout("1h"),
	}),
	"conntrack-tcp-be-liberal": flag({
		group: "Connection tracking",
		kubeProxy: true,
		default: "false",
		help: "TCP packets outside of the window are not taken for invalid by the kernel; false: left alone",
		parse: truth,
	}),
	"conntrack-udp-timeout": flag({
		group: "Connection tracking",
		kubeProxy: true,
		placeholder: "DURATION",
		default: "0s",
		help: "the kernel forgets a UDP flow without an answer after this; 0: left alone",
		parse: kernelTimeout("30s"),
	}),
	"conntrack-udp-timeout-stream": flag({
		group: "Connection tracking",
		kubeProxy: true,
		placeholder: "DURATION",
		default: "0s",
		help: "the kernel forgets a UDP flow that has had answers after this; 0: left alone",
		parse: kernelTimeout("2m"),
	}),
};

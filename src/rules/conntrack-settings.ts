/**
 * What is wanted of the kernel's connection tracking: kube-proxy's settings of these names. 0 and
 * false: the setting is left alone.
 */
export interface ConntrackWish {
	/** Connections tracked per CPU; 0 leaves the size of the table alone, whatever `min` says. */
	readonly maxPerCore: number;
	/** ... and at least this many. */
	readonly min: number;
	/** Timeouts in seconds. */
	readonly tcpEstablishedS: number;
	readonly tcpCloseWaitS: number;
	readonly tcpBeLiberal: boolean;
	readonly udpS: number;
	readonly udpStreamS: number;
}

/** One number in a file of the kernel. */
export interface KernelSetting {
	/** "nf_conntrack_max": as messages name it. */
	readonly name: string;
	readonly path: string;
	readonly wanted: number;
	/** True: a higher value was somebody's decision and stays. */
	readonly isMinimum: boolean;
	/** The flag that leaves it alone: "--conntrack-max-per-core 0". */
	readonly leaveAlone: string;
}

export interface WantedSettings {
	/** The size of the table; undefined: left alone. */
	readonly size: { readonly max: KernelSetting; readonly buckets: KernelSetting } | undefined;
	/** Of this network namespace alone. */
	readonly others: readonly KernelSetting[];
}

/**
 * What kube-proxy 1.36 and later stops at, whatever the number of CPUs: an entry takes about 300
 * bytes. An operator who wants more says so with `min`.
 */
const MAX_BY_CPUS = 1_048_576;

/** Entries per bucket of the table, as kube-proxy sizes it. */
const ENTRIES_PER_BUCKET = 4;

const SYSCTLS = "/proc/sys/net/netfilter";

/** Pure. @param cpus of the host, at least 1. */
export function planConntrackSettings(wish: ConntrackWish, cpus: number): WantedSettings {
	const timeouts = [
		sysctl("nf_conntrack_tcp_timeout_established", wish.tcpEstablishedS, ESTABLISHED),
		sysctl("nf_conntrack_tcp_timeout_close_wait", wish.tcpCloseWaitS, CLOSE_WAIT),
		sysctl("nf_conntrack_tcp_be_liberal", Number(wish.tcpBeLiberal), BE_LIBERAL),
		sysctl("nf_conntrack_udp_timeout", wish.udpS, UDP),
		sysctl("nf_conntrack_udp_timeout_stream", wish.udpStreamS, UDP_STREAM),
	];
	return { size: planSize(wish, cpus), others: timeouts.filter(({ wanted }) => wanted > 0) };
}

const ESTABLISHED = "--conntrack-tcp-timeout-established 0";
const CLOSE_WAIT = "--conntrack-tcp-timeout-close-wait 0";
const BE_LIBERAL = "--conntrack-tcp-be-liberal=false";
const UDP = "--conntrack-udp-timeout 0";
const UDP_STREAM = "--conntrack-udp-timeout-stream 0";
const SIZE = "--conntrack-max-per-core 0";

function planSize({ maxPerCore, min }: ConntrackWish, cpus: number): WantedSettings["size"] {
	if (maxPerCore === 0) return undefined;
	const entries = Math.max(Math.min(maxPerCore * cpus, MAX_BY_CPUS), min);
	return {
		max: { ...sysctl("nf_conntrack_max", entries, SIZE), isMinimum: true },
		buckets: {
			name: "nf_conntrack hashsize",
			path: "/sys/module/nf_conntrack/parameters/hashsize",
			wanted: Math.floor(entries / ENTRIES_PER_BUCKET),
			isMinimum: true,
			leaveAlone: SIZE,
		},
	};
}

function sysctl(name: string, wanted: number, leaveAlone: string): KernelSetting {
	return { name, path: `${SYSCTLS}/${name}`, wanted, isMinimum: false, leaveAlone };
}

/** Pure. Whether what is there will do. */
export function isAsWanted({ wanted, isMinimum }: KernelSetting, found: number): boolean {
	// 0 entries at most is the kernel's way to say that there is no limit.
	return isMinimum ? found === 0 || found >= wanted : found === wanted;
}

import type { HostLook, HostTools } from "../rules/find-tools.ts";
import { findOtherProxies } from "../rules/other-proxies.ts";
import { describeError } from "../shared/errors.ts";
import type { Log } from "../shared/log.ts";

/**
 * Warns of a kube-proxy whose rules are on this host: it serves the same Services, and what is not in
 * our rules goes its way. Never rejects; the daemon goes on.
 */
export async function tellOtherProxies(host: HostTools, look: HostLook, log: Log): Promise<void> {
	try {
		const traces = await findOtherProxies(host, look);
		const found = traces.filter(({ proxy }) => proxy === "kube-proxy").map(({ what }) => what);
		if (found.length === 0) return;
		log.warn(
			{
				found,
				remedy:
					"stop it and run kube-userproxy cleanup --kube-proxy, or serve only some Services with --service-proxy-name NAME",
			},
			"a kube-proxy is or was active on this node",
		);
	} catch (error) {
		log.debug({ error: describeError(error) }, "cannot look for other proxies");
	}
}

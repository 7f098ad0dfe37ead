import type { HostFacts } from "./check-facts.ts";
import { good, type Judgement, note } from "./judgement.ts";

/**
 * Pure. Whose rules are here, and what to do about them.
 *
 * @param serviceProxyName where it is given, the node's kube-proxy leaves our Services alone.
 */
export function judgeOtherProxies(
	{ otherProxies, tables }: Pick<HostFacts, "otherProxies" | "tables">,
	serviceProxyName: string | undefined,
): readonly Judgement[] {
	const tracesOf = (name: "kube-proxy" | "cilium") =>
		otherProxies.filter(({ proxy }) => proxy === name).map(({ what }) => what);
	const kubeProxy = tracesOf("kube-proxy");
	const cilium = tracesOf("cilium");
	return [
		...(serviceProxyName === undefined ? judgeCilium(cilium) : []),
		...(kubeProxy.length > 0 ? [judgeKubeProxy(kubeProxy, serviceProxyName)] : [judgeNone(tables)]),
	];
}

function judgeNone(tables: HostFacts["tables"]): Judgement {
	return tables.state === "unusable" && tables.isPermission
		? note("whether another kube-proxy has rules here cannot be seen without root")
		: good("no rules of another kube-proxy");
}

function judgeKubeProxy(found: readonly string[], serviceProxyName: string | undefined): Judgement {
	return serviceProxyName === undefined
		? note(
				`a kube-proxy is or was active here: ${found.join(", ")}`,
				"stop it and run kube-userproxy cleanup --kube-proxy, or serve only some Services with --service-proxy-name NAME",
			)
		: good(`a kube-proxy is here, and leaves the Services of "${serviceProxyName}" alone`);
}

function judgeCilium(found: readonly string[]): readonly Judgement[] {
	if (found.length === 0) return [];
	return [
		note(
			`Cilium is here (${found.join(", ")}); with its kube-proxy replacement it serves Services too`,
			"leave kubeProxyReplacement off, or serve only some Services with --service-proxy-name NAME",
		),
	];
}

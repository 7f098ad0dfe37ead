import { expect, test as it } from "vitest";
import { judgeOtherProxies } from "../../../src/cli/judge-other-proxies.ts";
import { FINE_FACTS } from "./fake-host.ts";

const kubeProxy = [
	{ proxy: "kube-proxy", what: "chain KUBE-SERVICES (iptables-nft)" },
	{ proxy: "kube-proxy", what: "nft table ip kube-proxy" },
] as const;
const cilium = [{ proxy: "cilium", what: "chain CILIUM_POST_nat (iptables-nft)" }] as const;

it("judgeOtherProxies() says in one line what of a kube-proxy is here, and the ways out", () => {
	expect(judgeOtherProxies({ ...FINE_FACTS, otherProxies: kubeProxy }, undefined)).toEqual([
		{
			state: "note",
			text: "a kube-proxy is or was active here: chain KUBE-SERVICES (iptables-nft), nft table ip kube-proxy",
			remedy: expect.stringMatching(
				/^stop it and run kube-userproxy cleanup --kube-proxy, .*--service-proxy-name NAME$/,
			),
		},
	]);
});

it("judgeOtherProxies() finds no fault with a kube-proxy beside which we run on purpose", () => {
	expect(judgeOtherProxies({ ...FINE_FACTS, otherProxies: kubeProxy }, "mine")).toEqual([
		{ state: "good", text: 'a kube-proxy is here, and leaves the Services of "mine" alone' },
	]);
});

it("judgeOtherProxies() knows that Cilium may be the Pods' network and no more", () => {
	expect(judgeOtherProxies({ ...FINE_FACTS, otherProxies: cilium }, undefined)).toEqual([
		{
			state: "note",
			text: expect.stringMatching(/^Cilium is here .*with its kube-proxy replacement/),
			remedy: expect.stringContaining("kubeProxyReplacement"),
		},
		{ state: "good", text: "no rules of another kube-proxy" },
	]);
});

it("judgeOtherProxies() does not claim that nothing is there where nobody could look", () => {
	const tables = { state: "unusable", reason: "no permission", isPermission: true } as const;
	expect(judgeOtherProxies({ otherProxies: [], tables }, undefined)).toEqual([
		{
			state: "note",
			text: "whether another kube-proxy has rules here cannot be seen without root",
		},
	]);
});

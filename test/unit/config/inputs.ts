import type { Config } from "../../../src/config/config.ts";
import { describeConfigProblem } from "../../../src/config/problem.ts";
import { type ConfigInputs, type FlagTexts, resolveConfig } from "../../../src/config/resolve.ts";

/** A host with manifests and nothing else configured. */
export function inputs(flags: FlagTexts = {}, rest: Partial<ConfigInputs> = {}): ConfigInputs {
	return {
		flags: { manifests: ["/etc/manifests"], ...flags },
		file: undefined,
		env: {},
		hostname: "node1",
		...rest,
	};
}

export function configOf(given: ConfigInputs): Config {
	const result = resolveConfig(given);
	if ("problems" in result) throw new Error(result.problems.map(describeConfigProblem).join("\n"));
	return result.config;
}

export function problemsOf(given: ConfigInputs): readonly string[] {
	const result = resolveConfig(given);
	return "problems" in result ? result.problems.map(describeConfigProblem) : [];
}

export function warningsOf(given: ConfigInputs): readonly string[] {
	const result = resolveConfig(given);
	return "warnings" in result ? result.warnings : result.problems.map(describeConfigProblem);
}

/** A KubeProxyConfiguration with the given lines under its head. */
export function file(...lines: string[]): { readonly path: string; readonly text: string } {
	const head = ["apiVersion: kubeproxy.config.k8s.io/v1alpha1", "kind: KubeProxyConfiguration"];
	return { path: "/etc/proxy.yaml", text: [...head, ...lines, ""].join("\n") };
}

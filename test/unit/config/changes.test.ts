import { expect, test as it } from "vitest";
import { applyChanges, configChanges } from "../../../src/config/changes.ts";
import { configOf, inputs } from "./inputs.ts";

it("configChanges() names what takes effect now and what waits for a restart", () => {
	const old = configOf(inputs());
	const next = configOf(
		inputs({
			"log-level": ["debug"],
			"log-connections": ["all"],
			"drain-timeout": ["1s"],
			"bind-address": ["192.0.2.1"],
			"dial-timeouts": ["1s"],
			kubeconfig: ["/k"],
			"conntrack-min": ["7"],
		}),
	);
	expect(configChanges(old, next)).toEqual({
		applied: ["drainTimeoutMs", "logLevel", "logConnections"],
		needRestart: ["cluster", "bindAddress", "dialTimeoutsMs", "conntrack"],
	});
});

it("configChanges() of equal Configs is nothing", () => {
	const given = inputs({ "proxy-port-range": ["1-2"] });
	expect(configChanges(configOf(given), configOf(given))).toEqual({ applied: [], needRestart: [] });
});

it("applyChanges() takes over what takes effect now and nothing else", () => {
	const old = configOf(inputs());
	const next = configOf(inputs({ "log-level": ["debug"], "dial-timeouts": ["1s"] }));
	const { config, needRestart } = applyChanges(old, next);
	expect(config).toEqual({ ...old, logLevel: "debug" });
	expect(needRestart).toEqual(["dialTimeoutsMs"]);
	// Asked again, it is still waiting.
	expect(applyChanges(config, next).needRestart).toEqual(["dialTimeoutsMs"]);
});

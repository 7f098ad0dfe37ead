import { expect, test as it } from "vitest";
import { nearest } from "../../../src/config/nearest.ts";

const words = ["udp-timeout", "kubeconfig", "master", "v"];

it.each([
	["udp-timout", "udp-timeout"],
	["udp_timeout", "udp-timeout"],
	["UDP-Timeout", "udp-timeout"],
	["kube-config", "kubeconfig"],
	["mastr", "master"],
])("nearest(%j) is %j", (word, expected) => {
	expect(nearest(word, words)).toBe(expected);
});

it.each(["bind-address", "", "x".repeat(100), "zz"])("nearest(%j) is nothing", (word) => {
	expect(nearest(word, ["udp-timeout", "kubeconfig", "master"])).toBeUndefined();
});

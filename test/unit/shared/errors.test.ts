import { expect, test as it } from "vitest";
import { describeError, errorCode } from "../../../src/shared/errors.ts";

it("describeError() joins the messages of the causes, each once", () => {
	const inner = new Error("connect ECONNREFUSED 192.0.2.1:6443");
	const outer = new Error("Cannot list services", { cause: inner });
	expect(describeError(outer)).toBe("Cannot list services: connect ECONNREFUSED 192.0.2.1:6443");
	expect(describeError(new Error("a: b", { cause: new Error("b") }))).toBe("a: b");
});

it("describeError() survives anything that can be thrown, a cause that is itself too", () => {
	const loop = new Error("loop");
	loop.cause = loop;
	expect(describeError(loop)).toBe("loop");
	expect(describeError(undefined)).toBe("unknown error");
	expect(describeError("text")).toBe("text");
	expect(describeError(new Error(""))).toBe("unknown error");
});

it("errorCode() gives a system error's code only", () => {
	expect(errorCode(Object.assign(new Error("x"), { code: "EMFILE" }))).toBe("EMFILE");
	expect(errorCode(Object.assign(new Error("x"), { code: 7 }))).toBeUndefined();
	expect(errorCode(null)).toBeUndefined();
});

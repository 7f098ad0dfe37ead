import { describe, expect, test as it } from "vitest";
import { serviceHealthAnswer } from "../../../src/observe/service-health-answer.ts";

const cart = { namespace: "shop", name: "cart", port: 31_797 };

describe("serviceHealthAnswer()", () => {
	it("is kube-proxy's, to the byte: tabs, and no line end", () => {
		const { body } = serviceHealthAnswer({ ...cart, localEndpoints: 2 }, true);
		expect(body).toBe(
			[
				"{",
				'\t"service": {',
				'\t\t"namespace": "shop",',
				'\t\t"name": "cart"',
				"\t},",
				'\t"localEndpoints": 2,',
				'\t"serviceProxyHealthy": true',
				"}",
			].join("\n"),
		);
	});

	it.each([
		[2, true, 200],
		[1, true, 200],
		[0, true, 503],
		[2, false, 503],
		[0, false, 503],
	])(
		"with %i endpoints here and the proxy healthy: %s, has status %i (classic 9.7.4)",
		(count, healthy, status) => {
			const answer = serviceHealthAnswer({ ...cart, localEndpoints: count }, healthy);
			expect(answer.status).toBe(status);
			expect(answer.headers).toMatchObject({
				"Content-Type": "application/json",
				"X-Content-Type-Options": "nosniff",
				"X-Load-Balancing-Endpoint-Weight": String(count),
			});
			expect(JSON.parse(answer.body)).toEqual({
				service: { namespace: "shop", name: "cart" },
				localEndpoints: count,
				serviceProxyHealthy: healthy,
			});
		},
	);
});

import { afterEach, beforeEach, describe, expect, test as it } from "vitest";
import { FAMILIES, type Family } from "../kit/address-kinds.ts";
import type { RemoteConnection } from "../kit/agent.ts";
import type { DaemonProcess } from "../kit/daemon-process.ts";
import { labProblem } from "../kit/lab.ts";
import {
	clusterIp,
	createServiceLab,
	eventually,
	labService,
	type ServiceLab,
} from "../kit/service-lab.ts";

describe.skipIf(labProblem() !== undefined)("a connection to an endpoint that is removed", () => {
	let services: ServiceLab;

	beforeEach(async () => {
		services = await createServiceLab({ endpoints: 2 });
		await services.serveTcp({ mode: "echo", port: 8083 });
	});
	afterEach(async () => {
		await services.close();
	});

	const serve = async (endpoints: readonly number[]) =>
		await services.write(
			"a.json",
			labService({ name: "a", number: 10, targetPort: 8083, endpoints, families: FAMILIES }),
		);
	/** As many connections as there are endpoints, in turn one to each. */
	const connectToEach = async (family: Family): Promise<readonly RemoteConnection[]> => {
		const connections: RemoteConnection[] = [];
		for (const _ of services.lab.endpoints) {
			const connection = await services.client.connect({
				address: clusterIp(10, family),
				port: 80,
			});
			await connection.write("one");
			expect(await connection.read(3)).toMatchObject({ bytes: 3 });
			connections.push(connection);
		}
		return connections;
	};
	const records = (daemon: DaemonProcess) => daemon.logs.filter(({ msg }) => msg === "connection");
	const goesOn = async (connection: RemoteConnection, bytes: number) => {
		await connection.write("x".repeat(bytes));
		expect(await connection.read(3 + bytes)).toMatchObject({ bytes: 3 + bytes, closed: false });
	};

	it.each(FAMILIES)(
		"is reset once the time to drain is over; others are not touched (%s) (case 25e)",
		async (family) => {
			await serve([1, 2]);
			const daemon = await services.start(["--drain-removed-endpoints=1s"]);
			const connections = await connectToEach(family);
			await serve([2]);
			await eventually(async () => expect(records(daemon)).toHaveLength(1), 20_000);
			const removed = family === "ipv4" ? "10.2.1.2:8083" : "[fd10:2:1::2]:8083";
			expect(records(daemon)).toMatchObject([{ endpoint: removed, end: "endpoint-removed" }]);
			const states = await eventually(async () => {
				const all = await Promise.all(
					connections.map(async (connection) => await connection.read("closed", 500)),
				);
				expect(all.filter(({ closed }) => closed)).toMatchObject([{ error: "ECONNRESET" }]);
				return all;
			});
			const [left] = connections.filter((_, index) => states[index]?.closed === false);
			if (left === undefined) throw new TypeError("no connection is left");
			await goesOn(left, 5);
		},
	);

	it("goes on without the flag until it ends by itself (case 25a, case 25e)", async () => {
		await serve([1, 2]);
		const daemon = await services.start();
		const connections = await connectToEach("ipv4");
		await serve([2]);
		// Newcomers come to the one that is left: the removal is in force.
		await eventually(async () => {
			await services.client.tcp({ address: clusterIp(10), port: 80, count: 4, send: "hi" });
			const last = records(daemon).slice(-4);
			expect(last.map((record) => record["endpoint"])).toEqual(Array(4).fill("10.2.2.2:8083"));
		});
		for (const connection of connections) await goesOn(connection, 5);
		for (const connection of connections) {
			await connection.finish("end");
			expect(await connection.read("closed")).toMatchObject({ ended: true, error: undefined });
		}
	});
});

/** Which connections somebody asked for; undefined: any. */
export interface ConnectionFilter {
	/** "shop/cart" for all ports of the Service, or "shop/cart:http". */
	readonly service: string | undefined;
	/** The client's address without the port, canonical. */
	readonly client: string | undefined;
}

/** A connection whose client is not known matches no wanted client. */
export function matchesFilter(
	connection: { readonly service: string; readonly client: string | undefined },
	{ service, client }: ConnectionFilter,
): boolean {
	if (service !== undefined && !isOfService(connection.service, service)) return false;
	if (client === undefined) return true;
	return connection.client !== undefined && addressOf(connection.client) === client;
}

function isOfService(name: string, wanted: string): boolean {
	return name === wanted || name.startsWith(`${wanted}:`);
}

/** "10.1.0.2" of "10.1.0.2:41234", "fd10::1" of "[fd10::1]:41234". */
function addressOf(socketAddress: string): string {
	const colon = socketAddress.lastIndexOf(":");
	return socketAddress.slice(0, colon).replace(/^\[(.*)\]$/, "$1");
}

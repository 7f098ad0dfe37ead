import type { IpAddress } from "./address.ts";
import type { Port } from "./port.ts";
import type { Binding, ServicePort } from "./service-port.ts";

/** What packet rules need to know of a ServicePort whose proxy listens there. */
export function toBinding(
	servicePort: ServicePort,
	{
		proxyPort,
		listenAddress,
	}: { readonly proxyPort: Port; readonly listenAddress: IpAddress | undefined },
): Binding {
	const { key, name, protocol, family, port, virtualAddresses, nodePort } = servicePort;
	return {
		key,
		name,
		protocol,
		family,
		port,
		virtualAddresses,
		nodePort,
		proxyPort,
		listenAddress,
		verdict: servicePort.endpoints.length === 0 ? servicePort.whenEmpty : "serve",
	};
}

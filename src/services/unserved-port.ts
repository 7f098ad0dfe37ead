/** Something that a Service asks for and does not get. */
export interface UnservedPort {
	/** "shop/cart:http". */
	readonly name: string;
	readonly reason: /** We relay TCP and UDP only. */
		| "sctp"
		/** Another ServicePort has the same address, port and protocol: `detail` names it. */
		| "conflict"
		/** An address that nobody may claim: `detail` says which and why. */
		| "address-refused"
		/** A process of this node has the port: `detail` names it. */
		| "port-taken"
		/** An endpoint that is itself a Service's address, which would loop: `detail` names it. */
		| "endpoint-is-virtual-address";
	readonly detail: string;
}

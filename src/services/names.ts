const DNS_LABEL = /^[a-z0-9]([a-z0-9-]*[a-z0-9])?$/;
const DNS_SUBDOMAIN = /^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/;

/** RFC 1123 label: what namespaces, Services and ports may be called. At most 63 characters. */
export function isDnsLabel(text: string): boolean {
	return text.length <= 63 && DNS_LABEL.test(text);
}

/** RFC 1123 subdomain: what most other objects may be called. At most 253 characters. */
export function isDnsSubdomain(text: string): boolean {
	return text.length <= 253 && DNS_SUBDOMAIN.test(text);
}

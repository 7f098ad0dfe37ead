import { generateKeyPairSync, type KeyObject, randomBytes, sign } from "node:crypto";

/** A certificate with its key, both PEM. */
export interface Certificate {
	readonly cert: string;
	readonly key: string;
}

export interface CertificateOptions {
	readonly commonName: string;
	/** "DNS:api.example", "IP:127.0.0.1". */
	readonly names?: readonly string[];
	readonly notBefore?: Date;
	readonly notAfter?: Date;
}

/**
 * A certificate authority for tests: Node can sign and not write certificates, and tests must not need
 * the openssl command. Only as much X.509 as TLS peers ask for.
 */
export class CertificateAuthority {
	readonly cert: string;
	readonly #name: Buffer;
	readonly #key: KeyObject;

	constructor(commonName = "test CA") {
		const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
		this.#name = nameOf(commonName);
		this.#key = privateKey;
		const basic = extension("2.5.29.19", sequence(tlv(0x01, Buffer.from([0xff]))), true);
		this.cert = this.#sign(publicKey, this.#name, [basic], { commonName });
	}

	issue(options: CertificateOptions): Certificate {
		const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
		const names = (options.names ?? []).map(generalName);
		const extensions = names.length === 0 ? [] : [extension("2.5.29.17", sequence(...names))];
		const key = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
		return { cert: this.#sign(publicKey, nameOf(options.commonName), extensions, options), key };
	}

	#sign(
		publicKey: KeyObject,
		subject: Buffer,
		extensions: readonly Buffer[],
		options: CertificateOptions,
	): string {
		const dayMs = 86_400_000;
		const { notBefore = new Date(Date.now() - dayMs), notAfter = new Date(Date.now() + dayMs) } =
			options;
		const algorithm = sequence(objectId("1.2.840.10045.4.3.2"));
		const serial = randomBytes(8);
		serial.writeUInt8(1, 0);
		const body = sequence(
			tlv(0xa0, tlv(0x02, Buffer.from([2]))),
			tlv(0x02, serial),
			algorithm,
			this.#name,
			sequence(time(notBefore), time(notAfter)),
			subject,
			publicKey.export({ type: "spki", format: "der" }),
			...(extensions.length === 0 ? [] : [tlv(0xa3, sequence(...extensions))]),
		);
		const signature = sign("sha256", body, this.#key);
		const der = sequence(body, algorithm, tlv(0x03, Buffer.concat([Buffer.from([0]), signature])));
		const lines = der.toString("base64").replaceAll(/(.{64})/g, "$1\n");
		return `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`;
	}
}

/** Tag, length, value: all there is to DER. */
function tlv(tag: number, value: Buffer): Buffer {
	const { length } = value;
	const head =
		length < 0x80
			? [tag, length]
			: length < 0x100
				? [tag, 0x81, length]
				: [tag, 0x82, length >> 8, length & 0xff];
	return Buffer.concat([Buffer.from(head), value]);
}

function sequence(...parts: readonly Buffer[]): Buffer {
	return tlv(0x30, Buffer.concat(parts));
}

function objectId(dotted: string): Buffer {
	const [first = 0, second = 0, ...rest] = dotted.split(".").map(Number);
	const bytes = rest.flatMap((part) => {
		const groups = [part & 0x7f];
		for (let left = part >> 7; left > 0; left >>= 7) groups.unshift((left & 0x7f) | 0x80);
		return groups;
	});
	return tlv(0x06, Buffer.from([first * 40 + second, ...bytes]));
}

function nameOf(commonName: string): Buffer {
	const pair = sequence(objectId("2.5.4.3"), tlv(0x0c, Buffer.from(commonName)));
	return sequence(tlv(0x31, pair));
}

/** UTCTime, good until 2049. */
function time(date: Date): Buffer {
	const digits = date.toISOString().replaceAll(/[-:T]/g, "").slice(2, 14);
	return tlv(0x17, Buffer.from(`${digits}Z`));
}

function extension(id: string, value: Buffer, isCritical = false): Buffer {
	const critical = isCritical ? [tlv(0x01, Buffer.from([0xff]))] : [];
	return sequence(objectId(id), ...critical, tlv(0x04, value));
}

function generalName(text: string): Buffer {
	const [kind, value = ""] = text.split(/:(.*)/s);
	if (kind === "DNS") return tlv(0x82, Buffer.from(value));
	return tlv(0x87, Buffer.from(value.split(".").map(Number)));
}

import { styleText } from "node:util";
import { prettyFactory } from "pino-pretty";
import { connectionSentence, isConnectionLine } from "./connection-sentence.ts";
import { showControlCharacters } from "./control-characters.ts";

/** Put around each line by the printer itself. */
const OWN_FIELDS: ReadonlySet<string> = new Set(["level", "time", "msg"]);

type Paint = (style: Parameters<typeof styleText>[0], text: string) => string;

/**
 * Makes the function that turns one JSON log line into one for people:
 * `[14:03:22.114] INFO: listener opened  service=shop/cart:http proxyPort=34567`.
 *
 * Control characters in messages, names and values are shown, not obeyed. Local time.
 */
export function createPrettyPrinter(options: {
	readonly colours: boolean;
}): (line: string) => string {
	const paint: Paint = options.colours
		? (style, text) => styleText(style, text, { validateStream: false })
		: (_, text) => text;
	const print = prettyFactory({
		colorize: options.colours,
		// Without this the whole message is cyan, and colours inside it end wrongly.
		customColors: { message: "reset" },
		useOnlyCustomProps: false,
		translateTime: "SYS:HH:MM:ss.l",
		hideObject: true,
		messageFormat: (line) => messageOf(line, paint),
	});
	return (line) => {
		const parsed: unknown = JSON.parse(line, (_, value: unknown) =>
			typeof value === "string" ? showControlCharacters(value) : value,
		);
		return print(parsed);
	};
}

function messageOf(line: object, paint: Paint): string {
	if (isConnectionLine(line)) return connectionSentence(line, paint);
	const fields = Object.entries(line).filter(([name]) => !OWN_FIELDS.has(name));
	const texts = fields.map(
		([name, value]) => `${paint("dim", `${showControlCharacters(name)}=`)}${valueText(value)}`,
	);
	const message = "msg" in line && typeof line.msg === "string" ? line.msg : "";
	const head = [message, texts.join(" ")].filter((part) => part !== "").join("  ");
	return [head, ...fields.flatMap(([, value]) => stackFrames(value))].join("\n");
}

/** Bare where that reads well, else JSON; of an error the text, its stack comes below. */
function valueText(value: unknown): string {
	const shown = isLoggedError(value) ? value.message : value;
	if (typeof shown === "string" && /^[^\s"={}[\]]+$/.test(shown)) return shown;
	// The strings inside show their control characters already; their backslashes need no second one.
	return JSON.stringify(shown).replaceAll("\\\\", "\\");
}

/** Only what looks like a frame: a message with line breaks in it must not pass for log lines. */
function stackFrames(value: unknown): readonly string[] {
	if (!isLoggedError(value)) return [];
	return value.stack.split("\\u000a").filter((frame) => /^\s+at /.test(frame));
}

function isLoggedError(
	value: unknown,
): value is { readonly message: string; readonly stack: string } {
	return (
		typeof value === "object" &&
		value !== null &&
		"message" in value &&
		typeof value.message === "string" &&
		"stack" in value &&
		typeof value.stack === "string"
	);
}

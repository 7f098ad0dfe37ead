import { globSync } from "node:fs";
import { relative } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";

const ROOT = fileURLToPath(new URL("../../../", import.meta.url));

/** What a call of these takes for fields, by the number of the argument. */
const FIELDS_ARGUMENT: Readonly<Record<string, Readonly<Record<string, number>>>> = {
	Log: { error: 0, warn: 0, info: 0, debug: 0, child: 0 },
	Logger: { error: 0, warn: 0, info: 0, debug: 0, child: 0 },
	RecurringFailure: { failed: 1, succeeded: 0 },
};

export interface LogFields {
	/** Field → one of the files that log it. */
	readonly fields: ReadonlyMap<string, string>;
	/** Where the compiler cannot tell the fields, as the argument's type is too wide. */
	readonly unknown: readonly string[];
}

/** Every field that any line of src/ can have, as the TypeScript compiler sees it. */
export function findLogFields(): LogFields {
	const paths = globSync("src/**/*.ts", { cwd: ROOT }).map((path) => `${ROOT}${path}`);
	const { config } = ts.readConfigFile(`${ROOT}tsconfig.json`, (path) => ts.sys.readFile(path));
	const { options } = ts.parseJsonConfigFileContent(config, ts.sys, ROOT);
	const program = ts.createProgram(paths, options);
	const checker = program.getTypeChecker();
	const fields = new Map<string, string>();
	const unknown: string[] = [];
	const look = (node: ts.Node): void => {
		const argument = fieldsArgument(node, checker);
		if (argument !== undefined) {
			const { line } = ts.getLineAndCharacterOfPosition(node.getSourceFile(), node.getStart());
			const place = `${relative(ROOT, node.getSourceFile().fileName)}:${line + 1}`;
			const names = namesIn(checker.getTypeAtLocation(argument), checker);
			if (names === undefined) unknown.push(place);
			for (const name of names ?? []) fields.set(name, place);
		}
		ts.forEachChild(node, look);
	};
	for (const path of paths) {
		const file = program.getSourceFile(path);
		if (file !== undefined) look(file);
	}
	return { fields, unknown };
}

function fieldsArgument(node: ts.Node, checker: ts.TypeChecker): ts.Expression | undefined {
	if (!ts.isCallExpression(node)) return undefined;
	const { expression, arguments: given } = node;
	const isElement = ts.isElementAccessExpression(expression);
	if (!isElement && !ts.isPropertyAccessExpression(expression)) return undefined;
	const type = checker.getTypeAtLocation(expression.expression);
	const methods = FIELDS_ARGUMENT[type.symbol?.name ?? ""];
	// log[level](…): whatever the level is.
	const index = isElement ? methods?.["info"] : methods?.[expression.name.text];
	return index === undefined ? undefined : given[index];
}

/** @returns undefined where it can be any object. */
function namesIn(type: ts.Type, checker: ts.TypeChecker): string[] | undefined {
	if ((type.flags & ts.TypeFlags.NonPrimitive) !== 0) return undefined;
	const types = type.isUnion() ? type.types : [type];
	return types.flatMap((each) => checker.getPropertiesOfType(each).map(({ name }) => name));
}

/**
 * The arrows of ARCHITECTURE.md as a check: `npm run lint` fails when one turns round.
 *
 * rooms.json is the one table (room: rooms that it may import); ARCHITECTURE.md holds the same, and
 * test/unit/architecture.test.ts fails when the two, or the folders under src/, differ.
 */
const arrows = require("./rooms.json");

/** Each outside dependency has one owner, so that replacing it is the work of one room. */
const owners = {
	"@kubernetes/client-node": ["sources"],
	undici: ["sources"],
	yaml: ["sources", "config"],
	execa: ["rules", "sources"],
	"lru-cache": ["balancing", "proxies"],
	pino: ["observe"],
	"pino-pretty": ["observe"],
	"prom-client": ["observe"],
	zod: ["config"],
	commander: ["cli"],
	"ipaddr.js": ["services"],
	koffi: ["system"],
};

/** Node's own doors to the outside. */
const builtins = {
	// daemon: the lock of daemon/node-lock.ts, no traffic.
	// system: the pipes of programs.
	"^(node:)?net$": ["proxies", "daemon", "system"],
	"^(node:)?dgram$": ["proxies"],
	"^(node:)?(http|https|http2)$": ["observe", "cli"],
	"^(node:)?child_process$": [],
	"^(node:)?(fs|fs/promises)$": [
		"sources",
		"config",
		"cli",
		"daemon",
		"rules",
		"observe",
		"proxies",
		"shared",
	],
	"^(node:)?os$": ["cli", "daemon", "proxies"],
	"^(node:)?worker_threads$": ["proxies"],
};

const rooms = Object.keys(arrows);
const inRooms = (names) => `^src/(${names.join("|")})/`;
const escaped = (name) => name.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&");

module.exports = {
	forbidden: [
		...rooms.map((room) => ({
			name: `${room}-arrows`,
			comment: `${room}/ may import ${arrows[room].join(", ") || "no other room"}; shared words belong in services/, rooms meet in daemon/`,
			severity: "error",
			from: { path: `^src/${room}/` },
			to: { path: "^src/", pathNot: inRooms([room, ...arrows[room]]) },
		})),
		{
			name: "rooms-are-on-the-map",
			comment:
				"add the folder to the table above and to ARCHITECTURE.md, or put the file in a room",
			severity: "error",
			from: { path: "^src/", pathNot: [inRooms(rooms), "^src/main\\.ts$"] },
			to: {},
		},
		...Object.entries(owners).map(([name, owning]) => ({
			name: `${name.replace(/[@/.]+/g, "-").replace(/^-/, "")}-has-one-owner`,
			comment: `only ${owning.join(", ")} may import ${name}; other rooms see our own types`,
			severity: "error",
			from: { path: "^src/", pathNot: inRooms(owning) },
			to: { path: `node_modules/${escaped(name)}/` },
		})),
		...Object.entries(builtins).map(([path, owning]) => ({
			name: `builtin-${path.replace(/[^a-z0-9_]+/g, "-").replace(/^-node-|-$/g, "")}`,
			comment: `only ${owning.join(", ") || "nobody"} may use it`,
			severity: "error",
			from: { path: "^src/", pathNot: owning.length === 0 ? [] : inRooms(owning) },
			to: { dependencyTypes: ["core"], path },
		})),
		{
			name: "services-are-pure",
			comment:
				"the model decides; it does no I/O (ipaddr.js, which only parses, is its one package)",
			severity: "error",
			from: { path: "^src/services/" },
			to: { pathNot: ["^src/(services|shared)/", "node_modules/ipaddr\\.js/"] },
		},
		{
			name: "src-stands-alone",
			comment: "what ships needs neither test/ nor scripts/ nor a development dependency",
			severity: "error",
			from: { path: "^src/" },
			to: { path: ["^test/", "^scripts/"] },
		},
		{
			name: "no-dev-dependencies",
			comment: "what ships must be in dependencies",
			severity: "error",
			from: { path: "^src/" },
			to: { dependencyTypes: ["npm-dev", "npm-no-pkg"] },
		},
		{
			name: "no-cycles",
			comment: "a cycle means two files are really one",
			severity: "error",
			from: {},
			to: { circular: true },
		},
		{
			name: "no-orphans",
			comment: "nobody imports this file",
			severity: "error",
			from: { orphan: true, path: "^src/", pathNot: "^src/main\\.ts$" },
			to: {},
		},
		{
			name: "no-broken-imports",
			comment: "the import leads nowhere",
			severity: "error",
			from: {},
			to: { couldNotResolve: true },
		},
	],
	options: {
		doNotFollow: { path: "node_modules" },
		tsPreCompilationDeps: true,
		tsConfig: { fileName: "tsconfig.json" },
	},
};

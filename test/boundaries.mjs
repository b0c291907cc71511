// Checks that src has only known rooms, that its files are short, and that each part imports only what it may import.
// `npm run lint` runs it. An argument names a folder to check in place of src.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { cruise } from 'dependency-cruiser';
import extractTSConfig from 'dependency-cruiser/config-utl/extract-ts-config';

const root = process.argv[2] ?? 'src';
const FEATURE = '(?:ingestion|identity-management)';
const inner = (path) => `^${root}/${path}`;

const ROOMS = ['app', 'authentication', 'client', 'commands', 'common', 'configuration', 'http', 'identity-management', 'ingestion', 'operations', 'require', 'testing'];
const LOOSE_FILES = ['index.ts', 'main.ts'];
const MAX_LINES = 350;
const MAX_MEDIAN_LINES = 69;

const COMMAND_TOOLS = '/store-(verification|move)/|/(tenant-setup|realm-setup|compaction-run|compaction-report|report-text|progress-bar)\\.ts$';

const forbidden = [
  {
    name: 'domain-imports-domain-and-common-only',
    from: { path: inner(`(${FEATURE})/domain/`), pathNot: '\\.spec\\.ts$' },
    to: { pathNot: [inner('$1/domain/'), inner('common/(durations|service-error|text)\\.ts$')] },
  },
  {
    name: 'application-imports-no-adapter-and-no-transport',
    from: { path: inner(`(${FEATURE})/application/`) },
    to: { path: [inner(`${FEATURE}/adapters/`), inner('(http|operations|authentication)/'), 'node_modules/express/', '^(fs|http|net)(/|$)'] },
  },
  {
    name: 'features-stay-apart',
    from: { path: inner(`(${FEATURE})/`) },
    to: { path: inner(`${FEATURE}/`), pathNot: inner('$1/') },
  },
  {
    name: 'ways-in-and-out-meet-in-the-application-only',
    from: { path: inner(`${FEATURE}/adapters/(in|out)/`) },
    to: { path: inner(`${FEATURE}/adapters/(in|out)/`), pathNot: inner(`${FEATURE}/adapters/$1/`) },
  },
  {
    name: 'adapters-out-stay-apart',
    from: { path: inner(`(${FEATURE})/adapters/out/([^/]+)/`) },
    to: { path: inner(`${FEATURE}/adapters/out/`), pathNot: [inner('$1/adapters/out/$2/'), inner('$1/adapters/out/(provider-api|provider-requirements)/')] },
  },
  {
    name: 'sdks-of-stores-are-loaded-when-they-are-chosen',
    from: { path: inner(''), pathNot: inner('ingestion/adapters/out/object-storage/(s3|azure-blob)/') },
    to: { path: inner('ingestion/adapters/out/object-storage/(s3|azure-blob)/'), dynamic: false },
  },
  {
    name: 'opentelemetry-stays-in-its-room',
    from: { path: inner(''), pathNot: inner('operations/tracing/') },
    to: { path: 'node_modules/@opentelemetry/' },
  },
  {
    name: 'opentelemetry-is-loaded-when-it-is-asked-for',
    from: { path: inner(''), pathNot: inner('operations/tracing/') },
    to: { path: inner('operations/tracing/'), dynamic: false, dependencyTypesNot: ['type-only'] },
  },
  {
    name: 'common-imports-nothing-of-ours',
    from: { path: inner('common/'), pathNot: '\\.spec\\.ts$' },
    to: { path: inner(''), pathNot: inner('common/') },
  },
  {
    name: 'http-knows-common-only',
    from: { path: inner('http/'), pathNot: '\\.spec\\.ts$' },
    to: { path: inner(''), pathNot: inner('(http|common)/') },
  },
  {
    name: 'authentication-knows-no-feature',
    from: { path: inner('authentication/'), pathNot: '\\.spec\\.ts$' },
    to: { path: inner(''), pathNot: inner('(authentication|http|common)/') },
  },
  {
    name: 'only-commands-import-commands-and-their-tools',
    from: { path: inner(''), pathNot: ['\\.spec\\.ts$', inner('(main\\.ts$|(commands|testing)/)'), COMMAND_TOOLS] },
    to: { path: [inner('commands/'), COMMAND_TOOLS] },
  },
  {
    name: 'operations-know-ports-and-domains-only',
    from: { path: inner('operations/') },
    to: { path: inner(`${FEATURE}/(?!application/ports/|domain/)`) },
  },
  {
    name: 'nothing-served-imports-testing',
    from: { path: inner('(?!testing/)'), pathNot: '\\.spec\\.ts$' },
    to: { path: ['/testing/', 'node_modules/vitest/'] },
  },
  {
    name: 'the-client-runs-in-browsers',
    from: { path: inner('client/') },
    to: { path: '', pathNot: [inner('client/'), 'node_modules/@noble/hashes/'] },
  },
  {
    name: 'nothing-served-imports-the-client',
    from: { path: inner('(?!client/)'), pathNot: '\\.spec\\.ts$' },
    to: { path: inner('client/') },
  },
  {
    name: 'nothing-imports-rxjs',
    from: { path: inner('') },
    to: { path: 'node_modules/rxjs/' },
  },
  { name: 'no-circular', from: {}, to: { circular: true } },
].map((rule) => ({ ...rule, severity: 'error' }));

const { output } = await cruise(
  [root],
  { ruleSet: { forbidden }, validate: true, doNotFollow: { path: 'node_modules' }, tsPreCompilationDeps: true },
  {},
  { tsConfig: extractTSConfig('tsconfig.json') },
);

const sources = output.modules.map(({ source }) => source);
// A rule that matches no file checks nothing, because a folder was renamed or the rule's pattern is wrong.
const idle = forbidden.filter(({ from }) => from.path && !sources.some((source) => new RegExp(from.path).test(source)));
const { violations } = output.summary;

const strangers = readdirSync(root)
  .filter((name) => !ROOMS.includes(name) && !LOOSE_FILES.includes(name))
  .map((name) => `${root}/${name}: neither ${LOOSE_FILES.join(', ')} nor a room (test/boundaries.mjs lists the rooms)`);

const lengths = readdirSync(root, { recursive: true })
  .filter((name) => name.endsWith('.ts') && !name.endsWith('.spec.ts'))
  .map((name) => ({ name, lines: readFileSync(join(root, name), 'utf8').split('\n').length - 1 }))
  .sort((one, other) => one.lines - other.lines);
const median = lengths[lengths.length >> 1].lines;
const tooLong = lengths.filter(({ lines }) => lines > MAX_LINES).map(({ name, lines }) => `${root}/${name}: ${lines} lines, more than ${MAX_LINES}`);
if (median > MAX_MEDIAN_LINES) tooLong.push(`${root}: half of the files have ${median} lines or more, which is above ${MAX_MEDIAN_LINES}`);

for (const { rule, from, to } of violations) console.error(`${rule.name}: ${from} -> ${to}`);
for (const { name } of idle) console.error(`${name}: matches no file`);
for (const text of [...strangers, ...tooLong]) console.error(text);
console.log(`boundaries: ${sources.length} modules, ${violations.length} violations, ${idle.length} idle rules`);
if (violations.length + idle.length + strangers.length + tooLong.length > 0) process.exitCode = 1;

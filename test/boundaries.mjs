// Checks that each part of src imports only what it may import. `npm run lint` runs it. An argument names a folder to
// check in place of src.
import { cruise } from 'dependency-cruiser';
import extractTSConfig from 'dependency-cruiser/config-utl/extract-ts-config';

const root = process.argv[2] ?? 'src';
const FEATURE = '(?:ingestion|identity-management)';
const inner = (path) => `^${root}/${path}`;

/** Modules that only commands use: they check or move a store, or set up a provider. */
const COMMAND_TOOLS = '/store-(verification|move)/|/(tenant|realm)-setup\\.ts$';

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
  { name: 'no-circular', from: {}, to: { circular: true } },
].map((rule) => ({ ...rule, severity: 'error' }));

const { output } = await cruise(
  [root],
  { ruleSet: { forbidden }, validate: true, doNotFollow: { path: 'node_modules' }, tsPreCompilationDeps: true },
  {},
  { tsConfig: extractTSConfig('tsconfig.json') },
);

const sources = output.modules.map(({ source }) => source);
const loose = sources.filter((source) => source.startsWith(`${root}/`) && /^[^/]+$/.test(source.slice(root.length + 1)) && !/\/(main|index)\.ts$/.test(source));
// A rule that matches no file checks nothing, because a folder was renamed or the rule's pattern is wrong.
const idle = forbidden.filter(({ from }) => from.path && !sources.some((source) => new RegExp(from.path).test(source)));
const { violations } = output.summary;

for (const { rule, from, to } of violations) console.error(`${rule.name}: ${from} -> ${to}`);
for (const { name } of idle) console.error(`${name}: matches no file`);
for (const source of loose) console.error(`${source}: only main.ts and index.ts stand outside of a room`);
console.log(`boundaries: ${sources.length} modules, ${violations.length} violations, ${idle.length} idle rules`);
if (violations.length + idle.length + loose.length > 0) process.exitCode = 1;

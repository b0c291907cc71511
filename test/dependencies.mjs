// Checks the project's dependencies: licences, deprecations, install scripts, required Node versions, and the tables
// that describe them. Reads package.json, package-lock.json and node_modules, and calls no registry. `npm run lint`
// runs it. An argument names a folder to check in place of the current one.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import semver from 'semver';

const OLDEST_NODE = '20.19.0';
/** Free licences of code that may be distributed together with the service. */
const LICENCES = ['0BSD', 'Apache-2.0', 'BSD-2-Clause', 'BSD-3-Clause', 'BlueOak-1.0.0', 'ISC', 'MIT', 'MIT-0', 'Python-2.0'];
/** The licences of packages that name theirs only in a text file. */
const LICENCES_IN_TEXTS = { 'pause@0.0.1': 'MIT' /* Readme.md */ };
const SCRIPTS_FORBIDDEN = ['@scarf/scarf'];

const root = process.argv[2] ?? '.';
const read = (path) => readFileSync(join(root, path), 'utf8');
const readJson = (path) => JSON.parse(read(path));

const manifest = readJson('package.json');
/** Required peer dependencies. An application installs these itself, so that there is only one copy of each. */
const peers = Object.entries(manifest.peerDependencies).filter(([name]) => !manifest.peerDependenciesMeta?.[name]?.optional);
const TABLES = {
  dependencies: { file: 'README.md', packages: { ...manifest.dependencies, ...Object.fromEntries(peers.filter(([name]) => !Object.hasOwn(manifest.devDependencies, name))) } },
  devDependencies: { file: 'CONTRIBUTING.md', packages: manifest.devDependencies },
};
const entries = Object.entries(readJson('package-lock.json').packages).filter(([path]) => path !== '');
const problems = [];

const nameOf = (path) => path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length);

/** A package's licence. Reads the package's own manifest for the old form `licenses`, which the lock file omits. */
function licenceOf(path, entry) {
  const file = `${path}/package.json`;
  const [old] = entry.license === undefined && existsSync(join(root, file)) ? (readJson(file).licenses ?? []) : [];
  return entry.license ?? old?.type ?? LICENCES_IN_TEXTS[`${nameOf(path)}@${entry.version}`];
}

for (const [path, entry] of entries) {
  const name = `${nameOf(path)}@${entry.version}`;
  if (!entry.dev && !LICENCES.includes(licenceOf(path, entry))) problems.push(`${name}: the licence ${licenceOf(path, entry) ?? '(none)'} is not in the list of test/dependencies.mjs`);
  if (entry.deprecated !== undefined) problems.push(`${name}: deprecated: ${entry.deprecated}`);
  if (entry.hasInstallScript && (!SCRIPTS_FORBIDDEN.includes(nameOf(path)) || manifest.allowScripts?.[nameOf(path)] !== false)) {
    problems.push(`${name}: runs a script when it is installed`);
  }
  if (entry.engines?.node !== undefined && !semver.satisfies(OLDEST_NODE, entry.engines.node)) problems.push(`${name}: needs Node ${entry.engines.node}, not ${OLDEST_NODE}`);
}

for (const [group, { file, packages }] of Object.entries(TABLES)) {
  const rows = [...read(file).matchAll(/^\| `([^`]+)` \| ([A-Za-z0-9.-]+) \| .+ \|$/gm)].map(([, name, licence]) => ({ name, licence }));
  const names = Object.keys(packages);
  const licences = new Map(entries.map(([path, entry]) => [path, licenceOf(path, entry)]));
  for (const name of names.filter((name) => !rows.some((row) => row.name === name))) problems.push(`${file}: no row for ${name} of ${group}`);
  for (const { name, licence } of rows) {
    if (!names.includes(name)) problems.push(`${file}: ${name} is not in ${group}`);
    else if (licences.get(`node_modules/${name}`) !== licence) problems.push(`${file}: the licence of ${name} is ${licences.get(`node_modules/${name}`)}`);
  }
  for (const name of Object.keys(manifest[group]).filter((name) => semver.valid(manifest[group][name]) === null)) problems.push(`package.json: the version of ${name} is not exact`);
}

// The lock file has the exact versions of these packages. They must not be development dependencies, because an
// installation that is only for serving (`--omit=dev`) would leave them out.
for (const [name, range] of peers) {
  const { version = '(none)' } = Object.fromEntries(entries)[`node_modules/${name}`] ?? {};
  if (!semver.satisfies(version, range)) problems.push(`package-lock.json: ${name}@${version} is not in the range ${range} of peerDependencies`);
  if (Object.hasOwn(manifest.devDependencies, name)) problems.push(`package.json: ${name} is in peerDependencies and in devDependencies`);
}

for (const problem of problems) console.error(problem);
console.log(`dependencies: ${entries.length} packages, ${problems.length} problems`);
if (problems.length > 0) process.exitCode = 1;

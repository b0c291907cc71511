// Removes from node_modules what the service never loads. The Dockerfile runs it after `npm prune --omit=dev`.
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Files that Node never loads from node_modules: TypeScript, which Node refuses there, and source maps, whose sources are
 * mostly missing.
 */
const NEVER_LOADED = /\.(?:map|[cm]?tsx?)$/;
/** The C library for which packages with native code are named, on the other kind of Linux. */
const FOREIGN_LIBC = process.report.getReport().header.glibcVersionRuntime === undefined ? '-gnu' : '-musl';

const lock = JSON.parse(readFileSync('package-lock.json', 'utf8')).packages;

/** The path at which Node finds a package that the package at `from` imports. Undefined if it isn't installed. */
function resolve(from, name) {
  for (let folder = from; ; folder = folder.slice(0, Math.max(0, folder.lastIndexOf('node_modules/') - 1))) {
    const path = join(folder, 'node_modules', name);
    if (Object.hasOwn(lock, path)) return path;
    if (folder === '') return undefined;
  }
}

/**
 * The paths of the packages that the service needs, directly or through others. npm also keeps each package that is both
 * a development dependency and an optional peer of another package, such as TypeScript.
 */
function neededPackages() {
  const needed = new Set(['']);
  for (const path of needed) {
    const { dependencies, optionalDependencies, peerDependencies = {}, peerDependenciesMeta = {} } = lock[path];
    const peers = Object.keys(peerDependencies).filter((name) => !peerDependenciesMeta[name]?.optional);
    for (const name of [...Object.keys({ ...dependencies, ...optionalDependencies }), ...peers]) {
      const found = name.endsWith(FOREIGN_LIBC) ? undefined : resolve(path, name);
      if (found !== undefined) needed.add(found);
    }
  }
  return needed;
}

const needed = neededPackages();
for (const path of Object.keys(lock)) if (!needed.has(path)) rmSync(path, { recursive: true, force: true });
// They name packages that are gone.
for (const name of ['.bin', '.package-lock.json']) rmSync(join('node_modules', name), { recursive: true, force: true });
for (const entry of readdirSync('node_modules', { recursive: true, withFileTypes: true })) {
  if (entry.isFile() && NEVER_LOADED.test(entry.name)) rmSync(join(entry.parentPath, entry.name));
}

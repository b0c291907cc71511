// Builds unless dist is the build of the sources as they are, because a build takes many seconds even if nothing has
// changed. `npm start` and the tests run it.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';

const ROOT = import.meta.dirname;
const SETTINGS = ['bundle.mjs', 'nest-cli.json', 'package-lock.json', 'tsconfig.json', 'tsconfig.build.json'];
/** What a build writes. Part of the digest, because another command may have built other sources. */
const BUILT = ['dist/.tsbuildinfo', 'dist/bundle/.tsbuildinfo'];
/** The digest of the last build. */
const RECORD = join(ROOT, 'dist/build.json');

const sources = () =>
  readdirSync(join(ROOT, 'src'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !entry.name.endsWith('.spec.ts'))
    .map((entry) => relative(ROOT, join(entry.parentPath, entry.name)))
    .sort();

/** The digest of the sources and of their build; undefined if there is no build. */
function digest() {
  const hash = createHash('sha256');
  try {
    for (const name of [...SETTINGS, ...sources(), ...BUILT]) {
      const bytes = readFileSync(join(ROOT, name));
      hash.update(`${name}\0${bytes.length}\0`).update(bytes);
    }
  } catch (error) {
    if (error.code !== 'ENOENT') throw error;
    return undefined;
  }
  return hash.digest('hex');
}

function recorded() {
  try {
    return JSON.parse(readFileSync(RECORD, 'utf8'));
  } catch {
    return undefined;
  }
}

const current = digest();
if (current === undefined || current !== recorded()) {
  const { status } = spawnSync('npm', ['run', '--silent', 'build'], { cwd: ROOT, stdio: 'inherit' });
  if (status === 0) writeFileSync(RECORD, JSON.stringify(digest()));
  else process.exitCode = 1;
}

// Bundles the compiled service and its packages into a few files, because it would otherwise load some 2,800, which is over
// half of the time of a start. `npm run build` runs this after the compiler, and dist/main.js then runs the bundle.
import { copyFileSync, readFileSync, rmSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { rolldown } from 'rolldown';

const LOCK = join(import.meta.dirname, 'package-lock.json');
const { packages } = JSON.parse(readFileSync(LOCK, 'utf8'));
const COMPILED = join(import.meta.dirname, 'dist');
const BUNDLE = join(COMPILED, 'bundle');

/** Packages with code for one platform, and those that other packages load only where somebody has installed them. */
const LEFT_OUT = ['supports-color', /^libsql(\/|$)/, 'ffi-rs', /^@nestjs\/(microservices|websockets)/, '@fastify/static', 'class-transformer/storage'];

/** What a module knows of its own place, as seen from the bundle. */
const PLACES = {
  url: (id) => `new URL(${JSON.stringify(relative(BUNDLE, id))}, import.meta.url).href`,
  filename: (id) => `(import.meta.dirname + ${JSON.stringify(`/${relative(BUNDLE, id)}`)})`,
  dirname: (id) => PLACES.filename(dirname(id)),
};

const modules = {
  name: 'modules',
  load(id) {
    refuseForDevelopment(id);
    // The code of packages is bundled as it is, so that an error shows lines that can be read without a source map.
    if (!id.startsWith(COMPILED)) return undefined;
    return { code: readFileSync(id, 'utf8'), map: JSON.parse(readFileSync(`${id}.map`, 'utf8')) };
  },
  transform(code, id) {
    if (!id.startsWith(COMPILED)) return { code, map: { mappings: '' } };
    return { code: code.replace(/\bimport\.meta\.(url|filename|dirname)\b/g, (_, place) => PLACES[place](id)), map: null };
  },
};

/** What only a development has isn't in the image, nor in the list of its packages. */
function refuseForDevelopment(id) {
  const path = /node_modules\/(?:@[^/]+\/)?[^/]+(?:\/node_modules\/(?:@[^/]+\/)?[^/]+)*/.exec(id)?.[0];
  if (path && packages[path]?.dev) throw new Error(`${path} is a dependency for development.`);
}

/** A package that can't be found would be noticed only when the service needs it. */
function refuse(level, { message }) {
  throw new Error(message);
}

rmSync(BUNDLE, { recursive: true, force: true });
const bundle = await rolldown({ input: join(COMPILED, 'commands/bundled.js'), platform: 'node', external: LEFT_OUT, plugins: [modules], onLog: refuse });
// Nest and Swagger use the names of classes.
await bundle.write({ dir: BUNDLE, entryFileNames: 'main.js', chunkFileNames: '[name].js', keepNames: true, comments: false, sourcemap: true, sourcemapExcludeSources: true });
// With these, dist/main.js finds out whether modules were compiled or packages installed since then.
copyFileSync(join(COMPILED, '.tsbuildinfo'), join(BUNDLE, '.tsbuildinfo'));
copyFileSync(LOCK, join(BUNDLE, 'package-lock.json'));

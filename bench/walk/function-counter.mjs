// A module that `node --import` loads into a service. On SIGUSR2 it writes the functions of the service and of
// OpenTelemetry that ran since the previous SIGUSR2 to the file that COUNTS_FILE names, as JSON:
// { [file]: { [function]: calls } }.
import { Session } from 'node:inspector/promises';
import { writeFile } from 'node:fs/promises';
import { isMainThread } from 'node:worker_threads';

const SERVICE = new URL('../../dist/', import.meta.url).href;
const PACKAGES = '/node_modules/';
const OPENTELEMETRY = `${PACKAGES}@opentelemetry/`;

if (isMainThread) {
  const session = new Session();
  session.connect();
  await session.post('Profiler.enable');
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
  process.on('SIGUSR2', () => void write(session));
}

/** The name of a file whose functions are counted; undefined for any other. */
function nameOf(url) {
  if (url.startsWith(SERVICE)) return url.slice(SERVICE.length);
  const at = url.lastIndexOf(OPENTELEMETRY);
  return at < 0 ? undefined : url.slice(at + PACKAGES.length);
}

async function write(session) {
  const { result } = await session.post('Profiler.takePreciseCoverage');
  const files = {};
  for (const { url, functions } of result) {
    const file = nameOf(url);
    if (file === undefined) continue;
    for (const { functionName, ranges: [{ count, startOffset }] } of functions) {
      // The function at offset 0 is the module's own top-level code, which doesn't count.
      if (count > 0 && startOffset > 0) (files[file] ??= {})[`${functionName}@${startOffset}`] = count;
    }
  }
  await writeFile(process.env.COUNTS_FILE, `${JSON.stringify(files)}\n`);
}

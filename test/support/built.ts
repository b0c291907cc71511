import { connect } from 'node:net';
import { text } from 'node:stream/consumers';

export const BUILD_PORT = 'TEST_BUILD_PORT';
export const BUILT = 'built';

/**
 * Resolves when dist is the build of the sources: at once, unless `build-meanwhile.ts` is building. Rejects if the
 * build failed. Specs wait for this while they are imported, because a hook has a time limit.
 */
export async function built(): Promise<void> {
  const port = process.env[BUILD_PORT];
  if (port === undefined) return;
  if ((await text(connect({ host: '127.0.0.1', port: Number(port) }))) !== BUILT) throw new Error('The build failed, so that nothing can be started from dist.');
}

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { BUILD_PORT, BUILT } from './built.js';

/**
 * Begins to build if anything has changed since the last build, like `build.ts`, but doesn't wait for the end. Specs
 * that use dist wait for it (`built`). The test run fails if the build fails.
 */
export default async function beginBuild(): Promise<() => Promise<void>> {
  // Some specs put directories into dist, so it must exist.
  mkdirSync('dist', { recursive: true });
  const building = spawn(process.execPath, ['build-if-changed.mjs'], { stdio: 'inherit' });
  const outcome = once(building, 'exit').then(([code]) => (code === 0 ? BUILT : 'failed'));
  const server = createServer((socket: Socket) => {
    socket.on('error', () => undefined);
    void outcome.then((text) => socket.end(text));
  }).listen(0, '127.0.0.1').unref();
  await once(server, 'listening');
  process.env[BUILD_PORT] = String((server.address() as AddressInfo).port);
  return async () => {
    if ((await outcome) === BUILT) return;
    // Vitest exits with 0 although it prints an error of a teardown.
    process.exitCode = 1;
    throw new Error('The build failed.');
  };
}

import { readFile, rm } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';

const LOOK_EVERY_MS = 5;

/**
 * Asks a module that is loaded into a service: sends SIGUSR2 to the service, and returns the line that the module then
 * writes to a file.
 *
 * @param {object} service a service that `Services` has started
 * @param {string} file the path of the file that the module writes
 * @returns {Promise<string>}
 */
export async function askBySignal(service, file) {
  await rm(file, { force: true });
  service.child.kill('SIGUSR2');
  for (;;) {
    const text = await readFile(file, 'utf8').catch(() => '');
    if (text.endsWith('\n')) return text;
    await delay(LOOK_EVERY_MS);
  }
}

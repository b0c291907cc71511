import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

/**
 * Runs a client in its own process, so that its work and that of the bench don't slow each other down.
 *
 * @param {URL} program the client's program. It receives the job as JSON, and prints the outcome as JSON.
 * @param {object} job
 * @param {AbortSignal} signal ends the client.
 * @param {Record<string, string>} [env] variables in addition to those of the bench.
 * @returns {Promise<import('./contests.mjs').Outcome>}
 */
export async function runClient(program, job, signal, env = {}) {
  const parameters = [fileURLToPath(program), JSON.stringify(job)];
  const { stdout } = await promisify(execFile)(process.execPath, parameters, { signal, env: { ...process.env, ...env } });
  return JSON.parse(stdout);
}

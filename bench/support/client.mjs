import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

/**
 * Runs a client in its own process, so that its work doesn't mix with that of the bench.
 *
 * @param {URL} program receives the job as JSON, and prints the outcome as JSON
 * @param {object} job
 * @param {AbortSignal} signal
 * @param {Record<string, string>} [env] variables in addition to those of the bench
 * @returns {Promise<import('./contests.mjs').Outcome>}
 */
export async function runClient(program, job, signal, env = {}) {
  const parameters = [fileURLToPath(program), JSON.stringify(job)];
  const { stdout } = await promisify(execFile)(process.execPath, parameters, { signal, env: { ...process.env, ...env } });
  return JSON.parse(stdout);
}

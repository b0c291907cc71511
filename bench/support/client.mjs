import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

/**
 * Runs a client in a process of its own, so that its work and the bench's don't mix.
 *
 * @param {URL} program is given the job as JSON, and prints what came back as JSON
 * @param {object} job
 * @param {AbortSignal} signal
 * @param {Record<string, string>} [env] beside the bench's own
 * @returns {Promise<import('./contests.mjs').Outcome>}
 */
export async function runClient(program, job, signal, env = {}) {
  const parameters = [fileURLToPath(program), JSON.stringify(job)];
  const { stdout } = await promisify(execFile)(process.execPath, parameters, { signal, env: { ...process.env, ...env } });
  return JSON.parse(stdout);
}

// Starts Prometheus, which Debian's package `prometheus` brings, and runs its tool `promtool`.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { programPath } from './proxies.mjs';
import { freePort, Server } from './server.mjs';

export const isPrometheusAvailable = () => ['prometheus', 'promtool'].every((name) => programPath(name) !== undefined);

class Prometheus extends Server {
  /**
   * Evaluates an expression, now.
   *
   * @param {string} expression
   * @returns {Promise<{ metric: Record<string, string>, value: [number, string] }[]>} the series of the result
   */
  async query(expression) {
    const { status, data, error } = await this.#get(`query?${new URLSearchParams({ query: expression })}`);
    if (status !== 'success') throw new Error(`${expression}: ${error}`);
    return data.result;
  }

  async #get(path) {
    return (await fetch(`${this.endpoint}/api/v1/${path}`)).json();
  }
}

/**
 * Starts a Prometheus that scrapes each second. Rejects if it doesn't start.
 *
 * @param {{ job: string, targets: readonly import('./prometheus.mjs').Target[], rules: string }} options `rules` is the
 *   path of a file of rules.
 * @returns {Promise<import('./prometheus.mjs').Prometheus>}
 */
export async function startPrometheus({ job, targets, rules }) {
  const port = await freePort();
  const server = new Prometheus('Prometheus', port);
  const config = {
    global: { scrape_interval: '1s', scrape_timeout: '1s', evaluation_interval: '1s' },
    rule_files: [rules],
    scrape_configs: [{ job_name: job, static_configs: targets.map(({ host, labels }) => ({ targets: [host], labels })) }],
  };
  const file = join(server.directory, 'prometheus.yml');
  // The configuration is written as JSON, which is YAML.
  await writeFile(file, JSON.stringify(config));
  await server.start(programPath('prometheus'), [`--config.file=${file}`, `--storage.tsdb.path=${join(server.directory, 'data')}`, `--web.listen-address=127.0.0.1:${port}`]);
  return server;
}

/**
 * Runs promtool.
 *
 * @param {readonly string[]} parameters
 * @param {string} [input] its standard input
 * @returns {Promise<{ code: number, output: string }>} the exit code, and what it printed
 */
export async function runPromtool(parameters, input = '') {
  const child = spawn(programPath('promtool'), parameters, { stdio: ['pipe', 'pipe', 'pipe'] });
  child.stdin.end(input);
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  return { code, output: stdout + stderr };
}

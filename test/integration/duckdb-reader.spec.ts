import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { DataDirectoryView } from '../../src/testing/data-directory.view.js';
import { DUCKDB_ENVIRONMENT, isDuckDbAvailable } from '../servers/duckdb.mjs';
import { isVersitygwAvailable, startVersitygw } from '../servers/versitygw.mjs';
import { POLARS } from '../servers/python-packages.mjs';
import { Load } from '../support/load.js';
import { type Variables, Workspace } from '../support/process.js';

const REMOVALS = 40;
const CUSTOMERS = ['c0', 'c1', 'c2', 'c3', 'c4'];
const ROUNDS = 4;
const BUCKET = 'load-data';
/** What readers of a bucket report of a segment that a removal made shorter, or otherwise replaced. */
const REWRITTEN = /\b416\b|Range Not Satisfiable|ETag/;
const WATCHER = new URL('../servers/watch-uploads.py', import.meta.url).pathname;

interface Watched {
  readonly queries: number;
  readonly errors: readonly string[];
  readonly not_found: readonly string[];
  readonly doubled: readonly number[];
  readonly without_bytes: readonly string[];
}

describe.runIf(isDuckDbAvailable())('DuckDB, by the query of docs/growth-and-quotas.md', () => {
  it('reports how much each customer has stored', async () => {
    const [, query = ''] = /```sql\n([^]*?);\n```/.exec(await readFile('docs/growth-and-quotas.md', 'utf8')) ?? [];
    const workspace = await Workspace.create();
    try {
      const { url } = await workspace.start();
      const upload = (customer: string, type: string, body: string) =>
        fetch(`${url}/ingestNowcastLoadData/upload_nowcast?customer_id=${customer}&filename=a.csv&manufacturer=m`, { method: 'POST', headers: { 'Content-Type': type }, body });
      const answers = [await upload('small', 'text/csv', 'a,b'), await upload('large', 'text/csv', 'a'.repeat(5_000)), await upload('large', 'application/json', '{"additional_data":"meter 7"}')];
      expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
      const program = 'import duckdb, json, sys; print(json.dumps([list(map(str, row)) for row in duckdb.sql(sys.argv[1]).fetchall()]))';
      const duckdb = workspace.run('python3', ['-c', program, query], DUCKDB_ENVIRONMENT);
      expect([await duckdb.exited, duckdb.stderr]).toEqual([{ code: 0, signal: null }, '']);
      expect(JSON.parse(duckdb.stdout)).toEqual([['large', '2', '5000'], ['small', '1', '3']]);
    } finally {
      await workspace.dispose();
    }
  });
});

/** A store of the service, and how a reader finds it. */
interface Store {
  readonly variables: Variables;
  readonly directory: string;
  readonly url: string;
}

describe.runIf(isDuckDbAvailable() && POLARS.areAvailable)('DuckDB and Polars, in a loop', () => {
  let workspace: Workspace;
  beforeEach(async () => {
    workspace = await Workspace.create();
  });
  afterEach(() => workspace.dispose());

  /** Stores and removes uploads, one by one and all of a segment, while both query the store. Returns what they saw. */
  async function watchRemovals({ variables, directory, url }: Store, clients: number): Promise<Watched> {
    const { program, origin } = await workspace.start({ LOG_LEVEL: 'silent', ...variables });
    const headers = { Authorization: `Bearer ${(await workspace.token()).stdout.trim()}` };
    const load = new Load(origin, clients);
    await load.reached(REMOVALS * 2);
    const environment = { ...process.env, ...variables, ...DUCKDB_ENVIRONMENT, PYTHONPATH: `${DUCKDB_ENVIRONMENT.PYTHONPATH}:${POLARS.path}` };
    const watcher = spawn('python3', [WATCHER, directory, url], { env: environment, stdio: ['pipe', 'pipe', 'inherit'] });
    const lines = createInterface({ input: watcher.stdout })[Symbol.asyncIterator]();
    await lines.next();

    for (const { uploadId } of load.acknowledged.slice(0, REMOVALS)) {
      const answer = await fetch(`${origin}/uploads/${uploadId}`, { method: 'DELETE', headers });
      expect(answer.status).toBe(204);
    }
    // Each round removes all uploads before a time, and with them the last lines of all segments that were complete then.
    for (let round = 0; round < ROUNDS; round++) {
      await load.reached(load.acknowledged.length + REMOVALS);
      const before = new Date().toISOString();
      for (const customer of CUSTOMERS) expect((await fetch(`${origin}/uploads?customer_id=${customer}&before=${before}`, { method: 'DELETE', headers })).status).toBe(200);
    }
    // After these, no upload is acknowledged any more that was received before the last round.
    await load.reached(load.acknowledged.length + REMOVALS);
    const removed = load.acknowledged.length;
    await load.reached(removed + REMOVALS);
    watcher.stdin.end(load.acknowledged.slice(removed).map(({ uploadId }) => `${uploadId}\n`).join(''));
    const { value } = (await lines.next()) as { value: string };
    await once(watcher, 'exit');
    await program.end('SIGTERM');
    await load.ended();
    return JSON.parse(value) as Watched;
  }

  const whole = { errors: [], not_found: [], doubled: [], without_bytes: [] };

  it('see each upload on a local disk whole or not at all, and never fail', async () => {
    // Few clients, so that the queries get a core too.
    const { queries, ...wrong } = await watchRemovals({ variables: {}, directory: workspace.data, url: workspace.data }, 2);
    expect(wrong).toEqual(whole);
    expect(queries).toBeGreaterThan(6);
    const segments = new DataDirectoryView(workspace.data);
    const sizes = await Promise.all((await segments.files('uploads')).map(async (path) => (await stat(segments.at(path))).size));
    expect(sizes.filter((size) => size === 0).length).toBeGreaterThan(ROUNDS);
  }, 240_000);

  it.runIf(isVersitygwAvailable())('see each upload in a bucket whole or not at all, and fail only if a segment was rewritten since it was listed', async () => {
    const server = await startVersitygw();
    try {
      await server.createBucket(BUCKET);
      const variables = { FILE_STORAGE: 's3', ...server.environment(BUCKET) };
      const { queries, errors, ...wrong } = await watchRemovals({ variables, directory: join(server.directory, BUCKET), url: `s3://${BUCKET}` }, 1);
      expect({ ...wrong, errors: errors.filter((error) => !REWRITTEN.test(error)) }).toEqual(whole);
      expect(queries).toBeGreaterThan(6);
    } finally {
      await server.stop();
    }
  }, 240_000);
});

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, stat } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { DataDirectoryView } from '../../src/testing/data-directory.view.js';
import { DUCKDB_ENVIRONMENT, isDuckDbAvailable } from '../servers/duckdb.mjs';
import { POLARS } from '../servers/python-packages.mjs';
import { Load } from '../support/load.js';
import { Workspace } from '../support/process.js';

const REMOVALS = 40;
const CUSTOMERS = ['c0', 'c1', 'c2', 'c3', 'c4'];
const ROUNDS = 4;
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

describe.runIf(isDuckDbAvailable() && POLARS.areAvailable)('DuckDB and Polars, in a loop', () => {
  let workspace: Workspace;
  beforeEach(async () => {
    workspace = await Workspace.create();
  });
  afterEach(() => workspace.dispose());

  it('see each upload whole or not at all, and never fail, while others are stored and removed, one by one and all of a segment', async () => {
    const { program, origin } = await workspace.start({ LOG_LEVEL: 'silent' });
    const headers = { Authorization: `Bearer ${(await workspace.token()).stdout.trim()}` };
    // Few, so that the queries get a core too.
    const load = new Load(origin, 2);
    await load.reached(REMOVALS * 2);
    const watcher = spawn('python3', [WATCHER, workspace.data], { env: { ...process.env, ...DUCKDB_ENVIRONMENT, PYTHONPATH: `${DUCKDB_ENVIRONMENT.PYTHONPATH}:${POLARS.path}` }, stdio: ['pipe', 'pipe', 'inherit'] });
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

    const { queries, ...wrong } = JSON.parse(value) as Watched;
    expect(wrong).toEqual({ errors: [], not_found: [], doubled: [], without_bytes: [] });
    expect(queries).toBeGreaterThan(6);
    const segments = new DataDirectoryView(workspace.data);
    const sizes = await Promise.all((await segments.files('uploads')).map(async (path) => (await stat(segments.at(path))).size));
    expect(sizes.filter((size) => size === 0).length).toBeGreaterThan(ROUNDS);
  }, 240_000);
});

// Restarts and kills replicas of the built service behind nginx while clients upload, and compares the bucket that they
// share with the answers.
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { setTimeout as delay } from 'node:timers/promises';
import { runCommand } from '../../bench/support/command.mjs';
import { Progress } from '../../bench/support/progress.mjs';
import { withServices } from '../../bench/support/service.mjs';
import { Random } from '../../dist/testing/random.js';
import { missingBucket, withBucket } from '../crash/bucket.mjs';
import { Ledger } from '../crash/ledger.mjs';
import { untilSwept } from '../crash/object-storage.mjs';
import { freePort } from '../servers/server.mjs';
import { Clients } from './clients.mjs';
import { missingNginx, startNginx } from './nginx.mjs';

const LARGEST_BYTES = 200_000;
const CONNECTIONS = 16;
/** How long all replicas serve between two restarts, in milliseconds. */
const SERVING_MS = 500;
const MOST_SHOWN = 10;
const COLUMNS = ['requests', 'failed', 'not in flight', '409', 'acknowledged', 'lost', 'twice', 'half shown', 'wrong'];

/** One of the processes that share the bucket, at a port that it keeps. */
class Replica {
  constructor(services, variables) {
    this.services = services;
    this.variables = variables;
  }

  /** Starts the replica, as another version of the service if `program` is given. */
  async start(program = resolve('dist/main.js')) {
    this.services.program = program;
    this.service = await this.services.start(this.variables);
  }

  end(signal) {
    return this.service.end(signal);
  }
}

/**
 * Uploads while `disturb` runs, and compares the bucket afterwards.
 *
 * @param {(replicas: Replica[]) => AsyncGenerator<{ from: number, to: number }>} disturb yields after each disturbance
 *   the time in which it may fail requests that were in flight then
 */
function part(title, { count, random, progress, mayFail }, disturb) {
  return withBucket(({ variables, directory }) =>
    withServices(async (services) => {
      const replicas = await Promise.all(
        Array.from({ length: count }, async (_, number) => {
          const own = { DATA_DIR: join(services.directory, `replica-${number}`), PORT: String(await freePort()) };
          return new Replica(services, { ...variables, ...own, TRUST_PROXY: '1' });
        }),
      );
      for (const replica of replicas) await replica.start();
      const nginx = await startNginx(replicas.map((replica) => Number(replica.variables.PORT)));
      try {
        const ledger = new Ledger({ mayRefuse: mayFail });
        const clients = new Clients(Number(new URL(nginx.endpoint).port), ledger, random, { connections: CONNECTIONS, largest: LARGEST_BYTES });
        const disturbances = [];
        await delay(SERVING_MS);
        for await (const disturbance of disturb(replicas)) {
          disturbances.push(disturbance);
          progress.show(`${title}: ${disturbances.length} times, ${clients.sent} requests, ${clients.failures.length} failed`);
          await delay(SERVING_MS);
        }
        await clients.stop();
        await untilSwept(directory, progress);
        for (const replica of replicas) await replica.end('SIGTERM');
        await ledger.compare(directory);
        const wasInFlight = ({ began, ended }) => disturbances.some(({ from, to }) => began <= to && ended >= from);
        const late = clients.failures.filter((failure) => !wasInFlight(failure));
        const findings = [
          ...(mayFail ? late : clients.failures).map(({ what }) => `${title}: a request failed: ${what}`),
          ...[ledger.lost, ledger.doubled, ledger.halfShown, ledger.wrong].flatMap((found) => [...found]),
        ];
        const counts = [clients.sent, clients.failures.length, late.length, clients.waits, ledger.acknowledged, ledger.lost.size, ledger.doubled.size, ledger.halfShown.size, ledger.wrong.size];
        return { title, counts, findings };
      } finally {
        await nginx.stop();
      }
    }),
  );
}

/** Ends each replica with a signal and starts it again, one after another, several times round. */
const restarts = (signal, rounds, program) =>
  async function* restart(replicas) {
    for (let round = 0; round < rounds; round++) {
      for (const replica of replicas) {
        const from = performance.now();
        await replica.end(signal);
        const to = performance.now();
        await replica.start(program?.(round));
        yield { from, to };
      }
    }
  };

/** @returns {Promise<boolean>} whether nothing was lost or stored twice, and no request failed that may not. */
async function replicas({ count, rounds, seed, other, progress }) {
  console.log(`seed ${seed}, ${count} replicas, ${rounds} rounds`);
  const random = new Random(seed);
  const options = { count, random, progress };
  const parts = [
    () => part('SIGTERM', { ...options, mayFail: false }, restarts('SIGTERM', rounds)),
    () => part('kill -9', { ...options, mayFail: true }, restarts('SIGKILL', rounds)),
    // The even rounds bring the other version, and the odd ones bring this one back.
    ...(other ? [() => part('another version', { ...options, mayFail: false }, restarts('SIGTERM', 2, (round) => (round % 2 === 0 ? other : undefined)))] : []),
  ];
  const findings = [];
  const row = (title, cells) => { console.log([title.padEnd(16), ...cells.map((cell, at) => String(cell).padStart(COLUMNS[at].length))].join('  ')); };
  row('', COLUMNS);
  for (const run of parts) {
    const result = await run();
    progress.clear();
    row(result.title, result.counts);
    findings.push(...result.findings);
  }
  for (const finding of findings.slice(0, MOST_SHOWN)) console.log(`  ${finding}`);
  return findings.length === 0;
}

/** @returns {Promise<number>} the exit code. */
async function main() {
  const { values } = parseArgs({
    options: {
      replicas: { type: 'string', default: '2' },
      rounds: { type: 'string', default: '10' },
      seed: { type: 'string', default: String(Math.floor(Math.random() * 2 ** 31)) },
      other: { type: 'string' },
    },
  });
  const [count, rounds, seed] = [values.replicas, values.rounds, values.seed].map(Number);
  const missing = missingBucket() ?? missingNginx();
  const isWrong = ![count, rounds, seed].every(Number.isSafeInteger) || count < 2 || rounds < 1 || seed < 0;
  if (isWrong || missing) {
    console.error(missing ?? '--replicas must be a whole number of at least 2, --rounds of at least 1, and --seed of at least 0');
    return 1;
  }
  return (await replicas({ count, rounds, seed, other: values.other && resolve(values.other), progress: new Progress() })) ? 0 : 1;
}

await runCommand(main);

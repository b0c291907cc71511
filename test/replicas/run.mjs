// Restarts and kills replicas of the built service behind nginx, and replaces their secrets, while clients upload, and
// create roles and users in Keycloak. Compares the bucket that the replicas share, and Keycloak, with the answers.
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { setTimeout as delay } from 'node:timers/promises';
import { Realm } from '../../bench/identity/realm.mjs';
import { runCommand } from '../../bench/support/command.mjs';
import { Progress } from '../../bench/support/progress.mjs';
import { withServices } from '../../bench/support/service.mjs';
import { Random } from '../../dist/testing/random.js';
import { missingBucket, withBucket } from '../crash/bucket.mjs';
import { Ledger } from '../crash/ledger.mjs';
import { untilSwept } from '../crash/object-storage.mjs';
import { isKeycloakAvailable } from '../servers/keycloak.mjs';
import { freePort } from '../servers/server.mjs';
import { Clients } from './clients.mjs';
import { missingNginx, startNginx } from './nginx.mjs';
import { otherProgramOf } from './other-version.mjs';
import { People } from './people.mjs';
import { Replica, restarts } from './replica.mjs';
import { Secrets } from './secrets.mjs';

const LARGEST_BYTES = 200_000;
const CONNECTIONS = 16;
/** Clients whose uploads take 3-5 s: longer than most of a restart, and less than SHUTDOWN_TIMEOUT_MS. */
const SLOW_CONNECTIONS = 4;
const SERVING_MS = 500;
const MOST_SHOWN = 10;
const COLUMNS = ['requests', 'failed', 'not in flight', '409', 'acknowledged', 'lost', 'twice', 'half shown', 'wrong'];
const TITLE_WIDTH = 28;

/**
 * Sends requests while `disturb` runs, and compares the bucket and Keycloak afterwards.
 *
 * @param {object} options
 * @param {(restart?: import('./replica.mjs').Restart) => boolean} options.mayFail whether a request may fail that was
 * in flight during this restart; undefined: during none
 * @param {boolean} [options.replacesSecrets] whether `disturb` replaces the secrets of the replicas, which then have a
 * webhook too
 * @param {() => void} options.onQuiet is called when no client sends any more, and only the sweep of the bucket and the
 * comparison are left
 * @param {(replicas: Replica[], secrets?: Secrets) => AsyncGenerator<import('./replica.mjs').Restart>} disturb see
 * `restarts`
 * @returns {Promise<{ rows: [string, (number | string)[]][], findings: string[] }>}
 */
function part(title, { count, random, pauseMs, progress, realm, mayFail, onQuiet, replacesSecrets = false }, disturb) {
  const work = (store) =>
    withServices(async (services) => {
      const { variables, directory } = store;
      const secrets = replacesSecrets ? await Secrets.create(store, realm) : undefined;
      services.atEnd(() => secrets?.close());
      const replicas = await Promise.all(
        Array.from({ length: count }, async (_, number) => {
          const own = { DATA_DIR: join(services.directory, `replica-${number}`), PORT: String(await freePort()) };
          return new Replica(services, { ...variables, ...realm.variables(realm.endpoint), ...secrets?.variables, ...own, TRUST_PROXY: '1' });
        }),
      );
      for (const replica of replicas) await replica.start();
      const nginx = await startNginx(replicas.map(({ port }) => port));
      try {
        const ledger = new Ledger();
        const port = Number(new URL(nginx.endpoint).port);
        const token = await realm.operatorToken();
        const clients = new Clients(port, ledger, random, { connections: CONNECTIONS, slow: SLOW_CONNECTIONS, largest: LARGEST_BYTES, pauseMs, token });
        const people = new People(port, token, title.replaceAll(/\W+/g, '-').toLowerCase(), random, pauseMs);
        const disturbances = [];
        await delay(SERVING_MS);
        for await (const disturbance of disturb(replicas, secrets)) {
          disturbances.push(disturbance);
          const failed = clients.failures.length + people.failures.length;
          progress.show(`${title}: ${disturbances.length} times, ${clients.sent + people.sent} requests, ${failed} failed`);
          await delay(SERVING_MS);
        }
        await clients.stop();
        const { lost, doubled } = await people.stop();
        const deliveries = await secrets?.deliveries(ledger.acknowledgedIds);
        onQuiet();
        await untilSwept(directory, progress);
        for (const replica of replicas) await replica.end('SIGTERM');
        await ledger.compare(directory);
        // A failure belongs to the last restart that it overlaps, because a request fails as soon as its replica does.
        const restartOf = ({ began, ended }) => disturbances.findLast(({ from, to }) => began <= to && ended >= from);
        const [late, latePeople] = [clients, people].map(({ failures }) => failures.filter((failure) => !restartOf(failure)));
        const forbidden = [...clients.failures, ...people.failures].filter((failure) => !mayFail(restartOf(failure)));
        const findings = [
          ...forbidden.map((failure) => `a request failed while ${restartOf(failure) ? 'this version' : 'no replica'} ended: ${failure.what}`),
          ...(deliveries?.findings ?? []),
          ...[ledger.lost, ledger.doubled, ledger.halfShown, ledger.wrong, lost, doubled].flatMap((found) => [...found]),
        ].map((finding) => `${title}: ${finding}`);
        const uploads = [clients.sent, clients.failures.length, late.length, clients.waits, ledger.acknowledged, ledger.lost.size, ledger.doubled.size, ledger.halfShown.size, ledger.wrong.size];
        const others = [people.sent, people.failures.length, latePeople.length, '', people.acknowledged, lost.length, doubled.length, '', ''];
        const rows = [[title, uploads], ['  roles and users', others]];
        if (deliveries) rows.push(['  events', [deliveries.requests, deliveries.refused, '', '', deliveries.events, deliveries.lost, deliveries.twice, '', '']]);
        return { rows, findings };
      } finally {
        await nginx.stop();
      }
    });
  return withBucket(work, { iam: replacesSecrets });
}

/** @returns {Promise<boolean>} whether nothing was lost or stored twice, and no request failed that may not. */
async function replicas({ rounds, other, only, ...options }) {
  const stopped = { ...options, mayFail: () => false };
  // Requests may fail when another version ends: 1.0.0 resets connections that wait to be accepted. This version must
  // not.
  const updated = { ...options, mayFail: (restart) => restart?.endedOther === true };
  const killed = { ...options, mayFail: (restart) => restart !== undefined };
  // The even rounds bring the other version, and the odd ones bring this one back.
  const change = (round) => (round % 2 === 0 ? other : undefined);
  // Parts that leave markers in the bucket come first, because their sweep takes a minute or two, in which others run.
  const parts = {
    kill: (onQuiet) => part('kill -9', { ...killed, onQuiet }, restarts('SIGKILL', rounds)),
    ...(other && {
      'killed-update': (onQuiet) => part('another version, kill -9', { ...killed, onQuiet }, restarts('SIGKILL', 2 * rounds, change)),
      update: (onQuiet) => part('another version, SIGTERM', { ...updated, onQuiet }, restarts('SIGTERM', 2 * rounds, change)),
    }),
    stop: (onQuiet) => part('SIGTERM', { ...stopped, onQuiet }, restarts('SIGTERM', rounds)),
    rotate: (onQuiet) => part('new secrets, SIGTERM', { ...stopped, onQuiet, replacesSecrets: true }, (all, secrets) => secrets.replace(all, rounds)),
  };
  const findings = [];
  const row = (title, cells) => { console.log([title.padEnd(TITLE_WIDTH), ...cells.map((cell, at) => String(cell).padStart(COLUMNS[at].length))].join('  ')); };
  row('', COLUMNS);
  const results = [];
  try {
    for (const [name, run] of Object.entries(parts)) {
      if (only && !only.includes(name)) continue;
      await new Promise((onQuiet, onFailure) => {
        const result = run(onQuiet);
        results.push(result);
        result.catch(onFailure);
      });
    }
  } finally {
    await Promise.allSettled(results);
  }
  for (const { rows, findings: found } of await Promise.all(results)) {
    options.progress.clear();
    for (const [title, cells] of rows) row(title, cells);
    findings.push(...found);
  }
  for (const finding of findings.slice(0, MOST_SHOWN)) console.log(`  ${finding}`);
  return findings.length === 0;
}

const HELP = `Usage: npm run test:replicas -- [options]

Restarts and kills replicas behind nginx while clients upload and create roles and users, and compares the bucket and
the lists with all answers. Also restarts them with new secrets, and then removes the old ones, as
docs/replacing-secrets.md describes. Needs nginx, Java and Maven for Keycloak, and Go for versitygw.

  --replicas <n>     how many replicas (2)
  --rounds <n>       how often each replica is restarted in each part, or all secrets are replaced (10)
  --other <program>  another version of the service, as a tarball of npm pack or its dist/main.js
  --pause <ms>       how long each client waits after a request (0)
  --only <parts>     kill, stop, rotate; with --other also killed-update, update; separated by commas
  --seed <n>         repeats the choices of a run, but not the timing of processes

Example: npm run test:replicas -- --rounds=1 --only=stop
`;

async function main() {
  const { values } = parseArgs({
    options: {
      replicas: { type: 'string', default: '2' },
      rounds: { type: 'string', default: '10' },
      pause: { type: 'string', default: '0' },
      seed: { type: 'string', default: String(Math.floor(Math.random() * 2 ** 31)) },
      other: { type: 'string' },
      only: { type: 'string' },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) {
    console.log(HELP);
    return 0;
  }
  const [count, rounds, pauseMs, seed] = [values.replicas, values.rounds, values.pause, values.seed].map(Number);
  const only = values.only?.split(',');
  const known = ['kill', ...(values.other ? ['killed-update', 'update'] : []), 'stop', 'rotate'];
  const isWrong = ![count, rounds, pauseMs, seed].every(Number.isSafeInteger) || count < 2 || rounds < 1 || pauseMs < 0 || seed < 0;
  const problem =
    (isWrong ? '--replicas must be a whole number of at least 2, --rounds of at least 1, and --pause and --seed of at least 0' : undefined) ??
    (only?.every((name) => known.includes(name)) === false ? `--only: there are ${known.join(', ')}` : undefined) ??
    missingBucket() ??
    missingNginx() ??
    (isKeycloakAvailable() ? undefined : 'Keycloak needs Java, and Maven to be installed with');
  if (problem) {
    console.error(problem);
    return 1;
  }
  console.log(`seed ${seed}, ${count} replicas, ${rounds} rounds`);
  return withServices(async ({ directory }) => {
    const other = values.other && (await otherProgramOf(values.other, directory));
    const realm = await Realm.start();
    try {
      return (await replicas({ count, rounds, pauseMs, random: new Random(seed), other, only, realm, progress: new Progress() })) ? 0 : 1;
    } finally {
      await realm.stop();
    }
  });
}

await runCommand(main);

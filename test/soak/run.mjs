// Runs the built service under a constant mixed load for a long time, and checks that nothing grows and nothing slows
// down.
import { execFile } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { parseArgs, promisify } from 'node:util';
import { setTimeout as delay } from 'node:timers/promises';
import { Realm } from '../../bench/identity/realm.mjs';
import { runCommand } from '../../bench/support/command.mjs';
import { Progress } from '../../bench/support/progress.mjs';
import { withServices } from '../../bench/support/service.mjs';
import { Random } from '../../dist/testing/random.js';
import { missingBucket, withBucket } from '../crash/bucket.mjs';
import { isKeycloakAvailable } from '../servers/keycloak.mjs';
import { drawCurves } from './curves.mjs';
import { INSPECTED } from './garbage-collector.mjs';
import { growthOf, medians } from './growth.mjs';
import { MixedLoad } from './load.mjs';
import { descriptorsAtRest, observe, openDescriptors } from './observer.mjs';

/** The control of each setup, which stores where the service does. */
const CONTROLS = { local: resolve('test/soak/disk-control.mjs'), distributed: resolve('test/soak/bucket-control.mjs') };
/** The title of each kind of request that is shown, and the control whose latency it is compared with. */
const SHOWN_KINDS = {
  'control write': { title: 'control write' },
  'control fetch': { title: 'control fetch' },
  'control read': { title: 'control read' },
  json: { title: 'JSON upload', control: 'control write' },
  file: { title: '4 KiB file with a key', control: 'control write' },
  list: { title: 'page of uploads', control: 'control fetch' },
  content: { title: 'content', control: 'control fetch' },
  users: { title: 'GET /users', control: 'control read' },
};
/** More descriptors than before the load that a service may keep open: the files of the day and of its keys. */
const KEPT_OPEN = 16;
const COLUMNS = ['second quarter', 'last quarter', 'ratio', 'beside the control', ''];

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '60' },
    rate: { type: 'string' },
    burst: { type: 'string', default: '0' },
    seed: { type: 'string', default: '1' },
    only: { type: 'string', default: 'local,distributed' },
    'most-growth': { type: 'string', default: '1.05' },
    directory: { type: 'string', default: 'soak-results' },
    help: { type: 'boolean', default: false },
  },
});

const HELP = `Usage: npm run soak -- [options]

Runs the service under a constant mixed load, prints how memory, descriptors, threads, event-loop lag and latency differ
between the second and the last quarter of the time, and draws their curves. A control, which is a bare server with the
same disk or bucket, runs beside the service and shows how fast the machine is. The ratio of a latency of the service is
divided by that of its control before it is judged.

  --minutes <n>       how long each setup runs (60)
  --rate <n>          requests per second to the service (local: 200, distributed: 50). The control gets 5 % of
                      this rate of each of three kinds, but at least 5 a second of each
  --burst <n>         requests that are sent at once, in addition, in the middle of the time (0)
  --only <setups>     local: the defaults, with a local disk and the embedded identity provider
                      distributed: a bucket of versitygw, and Keycloak
  --most-growth <n>   the highest ratio that counts as flat (1.05)
  --seed <n>          repeats the random choices (1)
  --directory <dir>   where the curves are written as SVG (soak-results)

Example: npm run soak -- --minutes=15 --only=local
`;

/** Requests per second: an upload takes several times as much processor time in a bucket as on the local disk. */
const RATES = { local: 200, distributed: 50 };

const SETUPS = {
  local: (work) => work({}, (service) => service.token()),
  distributed: (work) =>
    withBucket(async ({ variables }) => {
      const realm = await Realm.start();
      try {
        return await work({ ...variables, ...realm.variables(realm.endpoint) }, () => realm.operatorToken());
      } finally {
        await realm.stop();
      }
    }),
};

const missing = { local: () => undefined, distributed: () => missingBucket() ?? (isKeycloakAvailable() ? undefined : 'Keycloak is not installed, and there is no Maven to install it with') };

function soak(name, { minutes, rate, burst, seed, mostGrowth, directory, progress }) {
  const seconds = minutes * 60;
  return SETUPS[name]((variables, newToken) =>
    withServices(async (services) => {
      const service = await services.start({ NODE_OPTIONS: INSPECTED, LOG_LEVEL: 'info', ...variables });
      const control = await services.start(variables, CONTROLS[name]);
      const load = new MixedLoad(service, control, () => newToken(service), new Random(seed));
      const atFirst = await openDescriptors(service);
      await load.prepare();
      const ending = new AbortController();
      const samples = [];
      const observing = observe(service, () => load.connections, ending.signal, (sample) => {
        samples.push(sample);
        progress.show(`${name}: ${Math.round(sample.at)} of ${seconds} s, ${load.sent} requests, ${load.inFlight} in flight`);
      });
      const loading = load.run(rate, ending.signal);
      // The burst comes halfway through. It isn't sent if the run has ended before.
      delay(seconds * 500, undefined, { signal: ending.signal }).then(() => load.burst(burst), () => undefined);
      await Promise.race([delay(seconds * 1000), service.death('The service'), control.death('The control'), observing, loading]);
      ending.abort();
      await Promise.all([observing, loading]);
      progress.show(`${name}: waiting until idle connections are closed`);
      const most = atFirst + KEPT_OPEN;
      const atRest = await descriptorsAtRest(service, most);
      progress.clear();
      const { code } = await service.end('SIGTERM');
      const curves = curvesOf(samples, load.latencies);
      await mkdir(directory, { recursive: true });
      const file = join(directory, `${name}.svg`);
      await writeFile(file, drawCurves(`${name}, ${rate} requests/s`, curves, seconds));
      console.log(`\n${name}: ${load.sent} requests in ${minutes} min; curves: ${file}`);
      const rows = curves.map((curve) => growthOf(curve, seconds, mostGrowth));
      console.table(Object.fromEntries(rows.map(({ title, ...cells }) => [title, cells])), COLUMNS);
      const problems = [...load.unexpected].map(([what, count]) => `${count} x ${what}`);
      if (atRest > most) problems.push(`${atRest} descriptors stayed open, ${atFirst} were open before the load`);
      if (code !== 0) problems.push(`the service ended with ${code}`);
      problems.push(...(await verify(service)));
      console.log(problems.length === 0 ? 'no unexpected answer; the store is as the lines say' : problems.join('\n'));
      const isJudged = rows.some((row) => row['beside the control'] !== undefined && row[''] !== 'unknown');
      if (!isJudged) console.log('no latency could be judged: run it for longer, or while the machine has less other work');
      return problems.length === 0 && isJudged && rows.every((row) => row[''] !== 'grew');
    }),
  );
}

async function verify({ env }) {
  try {
    await promisify(execFile)(process.execPath, ['dist/commands/verify-store.js'], { env, maxBuffer: 64 * 1024 * 1024 });
    return [];
  } catch (error) {
    return [`verify:store: ${error.stdout ?? ''}${error.stderr ?? error.message}`];
  }
}

function curvesOf(samples, latencies) {
  const of = (member) => samples.filter((sample) => sample[member] !== undefined).map((sample) => [sample.at, sample[member]]);
  const processCurves = [
    { name: 'memory', unit: 'MiB', points: of('memory') },
    { name: 'descriptors', unit: '', points: of('descriptors') },
    { name: 'threads', unit: '', points: of('threads') },
    { name: 'event-loop lag', unit: 'ms', points: of('lag') },
  ];
  const latenciesOf = (kind) => latencies.filter(([each]) => each === kind).map(([, at, milliseconds]) => [at, milliseconds]);
  const latencyCurves = Object.entries(SHOWN_KINDS).map(([kind, { title, control }]) => {
    const all = latenciesOf(kind);
    return { name: title, unit: 'ms', points: medians(all), all, ...(control ? { control: latenciesOf(control) } : { isControl: true }) };
  });
  return [...processCurves, ...latencyCurves];
}

await runCommand(async () => {
  if (values.help) {
    console.log(HELP);
    return 0;
  }
  const names = values.only.split(',');
  const unknown = names.filter((name) => !Object.hasOwn(SETUPS, name));
  if (unknown.length > 0) {
    console.error(`--only: there is no setup ${unknown.join(', ')}; there are ${Object.keys(SETUPS).join(', ')}`);
    return 1;
  }
  const progress = new Progress();
  const outcomes = [];
  for (const name of names) {
    const why = missing[name]();
    if (why) {
      console.log(`${name}: not run, ${why}`);
      outcomes.push(false);
      continue;
    }
    const [minutes, burst, seed, mostGrowth] = [values.minutes, values.burst, values.seed, values['most-growth']].map(Number);
    outcomes.push(await soak(name, { minutes, rate: Number(values.rate ?? RATES[name]), burst, seed, mostGrowth, directory: values.directory, progress }));
  }
  return outcomes.every(Boolean) ? 0 : 1;
});

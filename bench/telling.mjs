import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readdir, symlink } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { randomBytes } from 'node:crypto';
import { parseArgs } from 'node:util';
import { setTimeout as delay } from 'node:timers/promises';
import { fillStore } from './finding/filled-store.mjs';
import { DistantStore, LATENCY_MS } from './object-storage/distant-store.mjs';
import { MemoryMeter } from './support/memory-meter.mjs';
import { Progress } from './support/progress.mjs';
import { Services, withServices } from './support/service.mjs';
import { printConditions } from './support/contests.mjs';
import { files4KiB, json, jsonWithPauses } from './uploads/loads.mjs';
import { median } from './support/table.mjs';

const MIB = 1024 * 1024;
const CONNECTIONS = 32;
const ROUNDS = 5;
const SECONDS = 4;
/** The pause of a connection between uploads. All connections together then send about 1,000 uploads a second. */
const PAUSE_MS = 30;
const CATCHING_UP_MS = 3_000;
/** How long files are uploaded to a bucket while the receiver refuses their events. */
const FILES_SECONDS = 30;
/** The share of the backlog of a bucket whose delivery is measured. */
const MEASURED_SHARE = 0.5;
const DAY_UPLOADS = 1_000_000;
const DAY_SECONDS = 24 * 60 * 60;
const BOOTS = 5;
/** How long a service has been ready when its memory is measured. */
const SETTLED_MS = 5_000;
const SECRET = `whsec_${randomBytes(32).toString('base64')}`;

const { signal } = new AbortController();

async function startReceiver(services, ...parameters) {
  const child = fork(new URL('telling/receiver.mjs', import.meta.url), parameters);
  services.atEnd(() => child.kill());
  const [{ port }] = await once(child, 'message');
  const receiver = { url: `http://127.0.0.1:${port}/`, taken: 0, accept: () => child.send('accept') };
  child.on('message', ({ taken }) => (receiver.taken = taken));
  return receiver;
}

/**
 * Measures the rate at which the service delivers a backlog of events to a webhook while further uploads arrive, in
 * comparison with the rate of these uploads. Also measures how much the service's memory grows while the backlog builds
 * up.
 */
async function measureBacklog(services) {
  const progress = new Progress();
  const receiver = await startReceiver(services, 'refusing');
  const service = await services.start({ EVENTS_WEBHOOK_URL: receiver.url, EVENTS_WEBHOOK_SECRET: SECRET });
  const meter = new MemoryMeter(service.child.pid);
  await json(CONNECTIONS)(service, SECONDS, signal);
  await meter.begin();
  progress.show('uploading while the receiver refuses');
  const { figures } = await json(CONNECTIONS)(service, 5 * SECONDS, signal);
  const { growth } = await meter.read();
  const arriving = (await jsonWithPauses(CONNECTIONS, PAUSE_MS)(service, SECONDS, signal)).figures.rate;
  const ending = new AbortController();
  const uploading = jsonWithPauses(CONNECTIONS, PAUSE_MS)(service, 60, ending.signal).catch(() => undefined);
  progress.show('delivering the backlog');
  receiver.accept();
  while (receiver.taken === 0) await delay(10);
  const [began, before] = [performance.now(), receiver.taken];
  await delay(CATCHING_UP_MS);
  const rate = ((receiver.taken - before) * 1000) / (performance.now() - began);
  ending.abort();
  await uploading;
  progress.clear();
  const [delivered, arrived] = [Math.round(rate), Math.round(arriving)];
  return [
    { title: 'a backlog is delivered', figure: `${delivered}/s`, goal: '>= 5000/s', ok: rate >= 5_000 },
    { title: 'beside uploads that arrive', figure: `at ${arrived}/s: ${(rate / arriving).toFixed(1)}`, goal: '>= 5', ok: rate >= 5 * arriving },
    { title: 'growth of memory while the backlog arrived', figure: `${Math.round(growth / MIB)} MiB, at ${Math.round(figures.rate)} uploads/s`, goal: '< 50 MiB', ok: growth < 50 * MIB },
  ];
}

/**
 * Compares the rate of small uploads to a service that delivers their events to a webhook with the rate of small
 * uploads to a service without a webhook. Each round restarts both services, because one process may be faster than
 * another of the same program, and each has two turns: the one without a webhook has the first and the last.
 */
async function measureUploads(services) {
  const progress = new Progress();
  const receiver = await startReceiver(services);
  const variables = { silent: {}, delivering: { EVENTS_WEBHOOK_URL: receiver.url, EVENTS_WEBHOOK_SECRET: SECRET } };
  const rates = { silent: [], delivering: [] };
  for (let round = 1; round <= ROUNDS; round++) {
    const started = {};
    const turns = { silent: [], delivering: [] };
    for (const name of Object.keys(variables)) {
      const own = new Services(`${services.directory}/${name}`);
      services.atEnd(() => own.end());
      await mkdir(own.directory);
      started[name] = { services: own, service: await own.start(variables[name]) };
    }
    for (const name of ['silent', 'delivering', 'delivering', 'silent']) {
      progress.show(`round ${round} of ${ROUNDS}: ${name}`);
      turns[name].push((await json(CONNECTIONS)(started[name].service, SECONDS, signal)).figures.rate);
      // Waits until all events of this turn are delivered, so that none is delivered during the next turn.
      for (let before = -1; before !== receiver.taken; await delay(1_500)) before = receiver.taken;
    }
    for (const name of Object.keys(variables)) {
      rates[name].push((turns[name][0] + turns[name][1]) / 2);
      await started[name].services.end();
    }
  }
  progress.clear();
  const ratios = rates.delivering.map((rate, round) => rate / rates.silent[round]);
  const figure = `${Math.round(median(rates.delivering))}/s, without ${Math.round(median(rates.silent))}/s: ${median(ratios).toFixed(2)} (${Math.min(...ratios).toFixed(2)}-${Math.max(...ratios).toFixed(2)})`;
  return [{ title: 'small uploads whose events are delivered', figure, goal: '>= 0.97', ok: median(ratios) >= 0.97 }];
}

/**
 * Compares the start and the memory of a service whose receiver was down for a day of 1,000,000 uploads with those of a
 * service on the same store without events. Then measures the rate at which the events of the day are delivered.
 */
async function measureDay(services) {
  const progress = new Progress();
  await fillStore(services.data, { uploads: DAY_UPLOADS, days: 1 });
  const receiver = await startReceiver(services, 'refusing');
  const webhook = { EVENTS_WEBHOOK_URL: receiver.url, EVENTS_WEBHOOK_SECRET: SECRET };
  const none = { millis: [], bytes: [] };
  const waiting = { millis: [], bytes: [] };
  const boot = async ({ millis, bytes }, variables) => {
    const began = performance.now();
    const service = await services.start(variables);
    millis.push(performance.now() - began);
    await delay(SETTLED_MS);
    const meter = new MemoryMeter(service.child.pid);
    await meter.begin();
    bytes.push(await meter.now());
    return { service, meter };
  };
  const show = (number, what) => { progress.show(`start ${number} of ${BOOTS} ${what}`); };
  for (let number = 1; number <= BOOTS; number++) {
    show(number, 'without events');
    await (await boot(none, {})).service.end('SIGTERM');
  }
  await addEvents(services.data);
  for (let number = 1; number < BOOTS; number++) {
    show(number, 'with a day of events');
    await (await boot(waiting, webhook)).service.end('SIGTERM');
  }
  const { meter } = await boot(waiting, webhook);
  receiver.accept();
  while (receiver.taken === 0) await delay(10);
  const [began, before] = [performance.now(), receiver.taken];
  while (receiver.taken < DAY_UPLOADS) {
    progress.show(`delivering a day: ${receiver.taken} of ${DAY_UPLOADS} events`);
    await delay(100);
  }
  const rate = ((receiver.taken - before) * 1000) / (performance.now() - began);
  const { growth } = await meter.read();
  progress.clear();
  const more = Math.round((median(waiting.bytes) - median(none.bytes)) / MIB);
  const arriving = DAY_UPLOADS / DAY_SECONDS;
  return [
    { title: 'start with a day of events, compared with none', figure: `${Math.round(median(waiting.millis))} ms, ${Math.round(median(none.millis))} ms`, goal: '<= 100 ms more', ok: median(waiting.millis) - median(none.millis) <= 100 },
    { title: 'memory after the start', figure: `${more} MiB more`, goal: '< 20 MiB more', ok: more < 20 },
    { title: `a day of ${DAY_UPLOADS} events is delivered`, figure: `${Math.round(rate)}/s, ${Math.round(rate / arriving)} times as fast as they came`, goal: '>= 5 times', ok: rate >= 5 * arriving },
    { title: 'growth of memory meanwhile', figure: `${Math.round(growth / MIB)} MiB`, goal: '< 50 MiB', ok: growth < 50 * MIB },
  ];
}

/**
 * Measures the rate at which the events of files in a bucket are delivered: first those of a backlog, then compares the
 * rate of uploads beside such a delivery with their rate while the receiver refuses. One process delivers and stores.
 */
async function measureBucket(services) {
  const progress = new Progress();
  const store = await DistantStore.start();
  services.atEnd(() => store.stop());
  const load = files4KiB(CONNECTIONS);
  const turn = async (work) => {
    const receiver = await startReceiver(services, 'refusing');
    const service = await services.start({ FILE_STORAGE: 's3', ...store.variables, EVENTS_WEBHOOK_URL: receiver.url, EVENTS_WEBHOOK_SECRET: SECRET });
    progress.show('uploading files while the receiver refuses');
    const { figures } = await load(service, FILES_SECONDS, signal);
    receiver.accept();
    let began = performance.now();
    for (; receiver.taken === 0; await delay(10)) began = performance.now();
    const result = await work(service, receiver, began, figures.rate * FILES_SECONDS);
    await service.end('SIGTERM');
    return { alone: figures.rate, ...result };
  };
  const backlog = await turn(async (_, receiver, began, waiting) => {
    progress.show('delivering the events of files');
    // Not all of them: the events of the last seconds are found later, when the time of the store has passed theirs.
    while (receiver.taken < MEASURED_SHARE * waiting) await delay(10);
    return { rate: (receiver.taken * 1000) / (performance.now() - began) };
  });
  const beside = await turn(async (service) => {
    progress.show('uploading files while events are delivered');
    return { rate: (await load(service, SECONDS, signal)).figures.rate };
  });
  progress.clear();
  const ratio = beside.rate / beside.alone;
  return [
    { title: `events of files in a bucket ${LATENCY_MS} ms away`, figure: `${Math.round(backlog.rate)}/s, ${(backlog.rate / backlog.alone).toFixed(1)} times as fast as they came`, goal: '>= 5 times', ok: backlog.rate >= 5 * backlog.alone },
    { title: 'uploads of files beside', figure: `${Math.round(beside.rate)}/s, otherwise ${Math.round(beside.alone)}/s: ${ratio.toFixed(2)}`, goal: '>= 0.97 times', ok: ratio >= 0.97 },
  ];
}

/** Makes all events of a store wait, as if they had never been delivered. */
async function addEvents(data) {
  const segments = (await readdir(join(data, 'uploads'), { recursive: true })).filter((name) => name.endsWith('.ndjson'));
  await mkdir(join(data, 'events'));
  for (const name of segments) await symlink(JSON.stringify({ lines: `uploads/${name}`, offset: 0 }), join(data, 'events', basename(name, '.ndjson')));
}

const PARTS = { backlog: measureBacklog, uploads: measureUploads, day: measureDay, bucket: measureBucket };

/** Measures how the service delivers events to a webhook, which runs on this machine. */
export default async function telling(parameters) {
  const { values } = parseArgs({ args: parameters, options: { only: { type: 'string' } } });
  const names = values.only?.split(',') ?? Object.keys(PARTS);
  const unknown = names.filter((name) => !Object.hasOwn(PARTS, name));
  if (unknown.length > 0) {
    console.error(`--only: there is no part ${unknown.join(', ')}; there are ${Object.keys(PARTS).join(', ')}`);
    return false;
  }
  printConditions({ rounds: ROUNDS, seconds: SECONDS });
  const results = [];
  for (const name of names) results.push(...(await withServices(PARTS[name])));
  console.table(Object.fromEntries(results.map(({ title, figure, goal, ok }) => [title, { figure, goal, '': ok ? 'ok' : 'missed' }])));
  return results.every(({ ok }) => ok);
}

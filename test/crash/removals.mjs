import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { withServices } from '../../bench/support/service.mjs';
import { filesIn } from '../../bench/support/store.mjs';
import { withBucket } from './bucket.mjs';
import { EventReceiver } from './event-receiver.mjs';
import { share } from './kills.mjs';
import { Ledger } from './ledger.mjs';
import { Load } from './load.mjs';
import { untilSwept } from './object-storage.mjs';

const LONGEST_PAUSE_MS = 50;
const REMOVERS = 4;
/** The share of the acknowledged uploads that are removed one by one. */
const REMOVED_SHARE = 0.4;
/** How often all uploads of a customer are removed, for each upload that the first remover comes to. */
const ERASED_SHARE = 0.05;
/** How many uploads must have been removed before each kill, at least. */
const REMOVED_PER_KILL = 15;
/** The most events in one delivery: after a crash, the events of one delivery may be told again. */
const MOST_EVENTS = 500;
/** The time in which everything must be told at the end. Another process takes over within a minute in a bucket. */
const TOLD_WITHIN_MS = 180_000;
const PAUSE_MS = 5;
const PAUSE_AT_END_MS = 500;

/** Removes uploads and tells a webhook of all changes under load, on the local disk. Kills the service repeatedly. */
export function removals(options) {
  return withServices((services) => run(services, {}, services.data, 'on disk', options));
}

/** The same in a bucket. */
export function removalsInBucket(options) {
  return withBucket(({ variables, directory }) => withServices((services) => run(services, variables, directory, 'in a bucket', options)));
}

async function run(services, variables, directory, where, { uploads, kills, random, progress }) {
  const ledger = new Ledger();
  const receiver = await EventReceiver.start(random);
  services.atEnd(() => receiver.close());
  const start = () => services.start({ ...variables, ...receiver.variables });
  let service = await start();
  for (let kill = 1; kill <= kills; kill++) {
    // A token is of one service process, because the port is part of its issuer.
    const token = await service.token();
    const load = new Load(service, ledger, random);
    const removing = Promise.all(Array.from({ length: REMOVERS }, (_, index) => remove(service, token, ledger, random, index === 0)));
    const wanted = share(uploads, kill, kills, random);
    await load.until(() => {
      progress.show(`removals ${where}, kill ${kill} of ${kills}: ${ledger.acknowledged} acknowledged, ${ledger.removed} removed, ${receiver.told} told`);
      return ledger.acknowledged >= wanted && ledger.removed >= kill * REMOVED_PER_KILL;
    });
    await delay(random.below(LONGEST_PAUSE_MS));
    await service.end('SIGKILL');
    await Promise.all([load.ended, removing]);
    service = await start();
  }
  await untilTold(ledger, receiver, directory, progress);
  if (where === 'in a bucket') await untilSwept(directory, progress);
  await service.end('SIGTERM');
  const lines = await ledger.compare(directory);
  const untold = neverTold(ledger, receiver, lines);
  const leftBehind = await eventsLeft(directory);
  const findings = [
    ...receiver.findings,
    ...untold,
    ...leftBehind,
    ...(await outOfOrder(directory, receiver)),
    ...(await verified(service)),
  ];
  if (receiver.toldTwice > kills * MOST_EVENTS) findings.push(`${receiver.toldTwice} events were told twice by ${kills} kills`);
  const facts = {
    removed: ledger.removed,
    told: receiver.told,
    'told twice': receiver.toldTwice,
    'never told': untold.length,
    'left behind': ledger.halfShown.size + leftBehind.length,
  };
  return { title: `kill -9 while removing, ${where}`, runs: `${kills} kills`, ledger, facts, findings };
}

/**
 * Removes acknowledged uploads one by one until the service ends. Sometimes removes all uploads of a customer.
 *
 * @param {boolean} erases whether to remove all uploads of a customer at times. Only one such removal may be in progress.
 */
async function remove(service, token, ledger, random, erases) {
  let isOver = false;
  service.exited.then(() => (isOver = true));
  const ask = async (target) => {
    const answer = await fetch(`${service.url}/uploads${target}`, { method: 'DELETE', headers: { Authorization: `Bearer ${token}` } });
    await answer.text();
    return answer.status;
  };
  const answered = (status, expected) => {
    if (status !== expected) ledger.wrong.add(`a removal was answered with ${status}`);
    return status === expected;
  };
  while (!isOver) {
    const customerId = `c${random.below(8)}`;
    const id = ledger.takeRemovable();
    try {
      if (id === undefined) await delay(PAUSE_MS);
      else if (erases && random.chance(ERASED_SHARE)) await ledger.duringErasure(customerId, async () => answered(await ask(`?customer_id=${customerId}`), 200));
      else if (random.chance(REMOVED_SHARE)) {
        await ledger.duringRemoval(id, async () => {
          const status = await ask(`/${id}`);
          return answered(status, status === 404 && ledger.mayBeErased(id) ? 404 : 204) && status === 204;
        });
      }
    } catch {
      // The service was killed, which `exited` reports a moment later.
      await delay(PAUSE_MS);
    }
  }
}

/** The events that must be told: that an upload is stored, or, if it was removed, that it is gone. */
function neverTold(ledger, receiver, lines) {
  const untold = ledger.acknowledgedIds.filter((id) => !receiver.hasTold(lines.has(id) ? id : `${id}-removed`));
  return untold.map((id) => `${id} was never told`);
}

/** Resolves when everything is told, or after the time in which it must be. */
async function untilTold(ledger, receiver, directory, progress) {
  const began = performance.now();
  for (;;) {
    const untold = neverTold(ledger, receiver, await idsIn(directory)).length;
    if (untold === 0 || performance.now() - began > TOLD_WITHIN_MS) return;
    progress.show(`removals: ${untold} to be told`);
    await delay(PAUSE_AT_END_MS);
  }
}

/** The segments of a store, each as the ids of its lines. */
async function segmentsIn(directory) {
  const paths = (await filesIn(directory, 'uploads')).map((path) => join(directory, path));
  const texts = await Promise.all(paths.map((path) => readFile(path, 'utf8').catch(() => '')));
  return texts.map((text) => [...text.matchAll(/"upload_id":"([0-9a-f-]{36})"/g)].map(([, id]) => id));
}

const idsIn = async (directory) => new Set((await segmentsIn(directory)).flat());

/** Finds segments whose uploads were first told in another order than that of their lines. */
async function outOfOrder(directory, receiver) {
  const isSorted = (orders) => orders.every((order, index) => index === 0 || order > orders[index - 1]);
  const orders = (await segmentsIn(directory)).map((ids) => ids.map((id) => receiver.orderOf(id)).filter((order) => order !== undefined));
  return orders.filter((each) => !isSorted(each)).map(() => 'a segment was told out of order');
}

/** Finds the events of removals that a store still keeps, although all were told. */
const eventsLeft = async (directory) => (await filesIn(directory, 'events')).filter((path) => path.includes('removed')).map((path) => `${path} is left behind`);

/** Finds what `verify:store` reports of the store when everything has ended. */
async function verified(service) {
  const verifying = promisify(execFile)(process.execPath, ['dist/commands/verify-store.js', '--json'], { env: service.env, maxBuffer: 2 ** 28 });
  const { stdout, code = 0 } = await verifying.catch((error) => error);
  return code === 0 ? [] : [`verify:store ended with ${code}: ${stdout.slice(0, 500)}`];
}

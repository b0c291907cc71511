import { execFile } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { withServices } from '../../bench/support/service.mjs';
import { withBucket } from './bucket.mjs';
import { EventReceiver } from './event-receiver.mjs';
import { share } from './kills.mjs';
import { Ledger } from './ledger.mjs';
import { Load } from './load.mjs';
import { untilSwept } from './object-storage.mjs';
import { eventsLeft, idsIn, interruptedIn, leftOf, outOfOrder } from './removal-findings.mjs';

const LONGEST_PAUSE_MS = 50;
const REMOVERS = 4;
const REMOVED_SHARE = 0.4;
const ERASED_SHARE = 0.05;
const REMOVED_PER_KILL = 15;
/** The time limit for events. In a bucket, another process takes over delivery within a minute. */
const DELIVERED_WITHIN_MS = 180_000;
const DELIVERED_AFTER_DAMAGE_MS = 15_000;
const PAUSE_MS = 5;
/** The pause after a kill in which the webhook takes a delivery that has already arrived. */
const ARRIVED_MS = 50;
const PAUSE_AT_END_MS = 500;

/**
 * Removes uploads under load, on the local disk, with a webhook that gets the events of all changes. Kills the service
 * repeatedly.
 *
 * @param {object} options
 * @param {Record<string, string>} [options.variables] more of the environment of the first service process, for the
 * self-test
 * @param {(store: { directory: string, ledger: Ledger, receiver: EventReceiver }) => Promise<void>} [options.damage]
 * damages the store after the last kill, for the self-test. The kill then waits until many events are delivered, and
 * nothing that the damage prevents is waited for
 */
export function removals(options) {
  return withServices((services) => run(services, {}, services.data, 'on disk', options));
}

/** Removes uploads under load like `removals`, but in a bucket. */
export function removalsInBucket(options) {
  return withBucket(({ variables, directory }) => withServices((services) => run(services, variables, directory, 'in a bucket', options)));
}

async function run(services, store, directory, where, { uploads, kills, random, progress, variables, damage }) {
  const ledger = new Ledger();
  const receiver = await EventReceiver.start(random);
  services.atEnd(() => receiver.close());
  const start = (more) => services.start({ ...store, ...receiver.variables, ...more });
  const leftBehind = [];
  let service = await start(variables);
  for (let kill = 1; kill <= kills; kill++) {
    // Each service process needs a new token, because the port is part of the issuer.
    const token = await service.token();
    const load = new Load(service, ledger, random);
    const removing = Promise.all(Array.from({ length: REMOVERS }, (_, index) => remove(service, token, ledger, random, index === 0)));
    const wanted = share(uploads, kill, kills, random);
    await load.until(() => {
      progress.show(`removals ${where}, kill ${kill} of ${kills}: ${ledger.acknowledged} acknowledged, ${ledger.removed} removed, ${receiver.delivered} delivered`);
      return ledger.acknowledged >= wanted && ledger.removed >= kill * REMOVED_PER_KILL && (!damage || receiver.delivered >= uploads);
    });
    await delay(random.below(LONGEST_PAUSE_MS));
    await service.end('SIGKILL');
    await Promise.all([load.ended, removing]);
    await delay(ARRIVED_MS);
    receiver.allowRepeats(await interruptedIn(directory));
    leftBehind.push(...(await leftOf(directory, ledger.removedIds)));
    if (kill === kills) await damage?.({ directory, ledger, receiver });
    service = await start();
  }
  // The sweeper completes interrupted removals, and these are delivered afterwards.
  if (where === 'in a bucket' && !damage) await untilSwept(directory, progress);
  await untilDelivered(ledger, receiver, directory, progress, damage ? DELIVERED_AFTER_DAMAGE_MS : DELIVERED_WITHIN_MS);
  await service.end('SIGTERM');
  const lines = await ledger.compare(directory);
  const undelivered = neverDelivered(ledger, receiver, lines);
  leftBehind.push(...(await eventsLeft(directory)));
  const findings = [
    ...receiver.findings,
    ...undelivered,
    ...leftBehind,
    ...(await outOfOrder(directory, receiver)),
    ...(await verified(service)),
  ];
  const facts = {
    removed: ledger.removed,
    delivered: receiver.delivered,
    'delivered twice': receiver.deliveredTwice,
    'never delivered': undelivered.length,
    'left behind': ledger.halfShown.size + leftBehind.length,
  };
  return { title: `kill -9 while removing, ${where}`, runs: `${kills} kills`, ledger, facts, findings };
}

/**
 * Removes uploads until the service has ended.
 *
 * @param {boolean} erases whether to remove all uploads of a customer at times. Only one such removal may be in
 * progress.
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

function neverDelivered(ledger, receiver, lines) {
  const undelivered = ledger.acknowledgedIds.filter((id) => !receiver.hasReceived(lines.has(id) ? id : `${id}-removed`));
  return undelivered.map((id) => `${id} was never delivered`);
}

/**
 * Waits until the service has delivered all events, and knows it. An event that the webhook has accepted stays in the
 * outbox until its answer has arrived, and so does one that a kill has kept from being confirmed.
 */
async function untilDelivered(ledger, receiver, directory, progress, withinMs) {
  const began = performance.now();
  for (;;) {
    const undelivered = neverDelivered(ledger, receiver, await idsIn(directory)).length;
    const unconfirmed = (await eventsLeft(directory)).length;
    if (undelivered + unconfirmed === 0 || performance.now() - began > withinMs) return;
    progress.show(`removals: ${undelivered} to be delivered, ${unconfirmed} files of removed uploads to be confirmed`);
    await delay(PAUSE_AT_END_MS);
  }
}

async function verified(service) {
  const verifying = promisify(execFile)(process.execPath, ['dist/commands/verify-store.js', '--json'], { env: service.env, maxBuffer: 2 ** 28 });
  const { stdout, code = 0 } = await verifying.catch((error) => error);
  return code === 0 ? [] : [`verify:store ended with ${code}: ${stdout.slice(0, 500)}`];
}

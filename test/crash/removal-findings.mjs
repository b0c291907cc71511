import { readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { filesIn } from '../../bench/support/store.mjs';

const ID = '[0-9a-f-]{36}';

/** The segments of a store, each as its path and the ids of its lines. */
export async function segmentsIn(directory) {
  const paths = await filesIn(directory, 'uploads');
  return Promise.all(paths.map(async (path) => ({ path, ids: idsOf(await textOf(directory, path), 'upload_id') })));
}

const textOf = (directory, path) => readFile(join(directory, path), 'utf8').catch(() => '');
const idsOf = (text, member) => [...text.matchAll(new RegExp(`"${member}":"(${ID})"`, 'g'))].map(([, id]) => id);

export const idsIn = async (directory) => new Set((await segmentsIn(directory)).flatMap(({ ids }) => ids));

/** Finds segments whose uploads were first delivered in another order than that of their lines. */
export async function outOfOrder(directory, receiver) {
  const isSorted = (orders) => orders.every((order, index) => index === 0 || order > orders[index - 1]);
  const orders = (await segmentsIn(directory)).map(({ ids }) => ids.map((id) => receiver.orderOf(id)).filter((order) => order !== undefined));
  return orders.filter((each) => !isSorted(each)).map(() => 'the events of a segment were delivered out of order');
}

/** Finds the events of removals that a store still keeps, although all were delivered. */
export const eventsLeft = async (directory) => (await filesIn(directory, 'events')).filter((path) => path.includes('removed')).map((path) => `${path} is left behind`);

/** Finds lines and files of uploads whose removal was answered as done. */
export async function leftOf(directory, removedIds) {
  const removed = new Set(removedIds);
  const files = (await filesIn(directory, 'files')).map((path) => basename(path).slice(0, 36));
  return [
    ...[...(await idsIn(directory))].filter((id) => removed.has(id)).map((id) => `${id} was removed, and its line is left`),
    ...files.filter((id) => removed.has(id)).map((id) => `${id} was removed, and its bytes are left`),
  ];
}

/**
 * The ids of the events that may be delivered again because a kill has interrupted a removal. They are the removals
 * that are written to the outbox again, and on a local disk all uploads of the segment: its offset in the outbox moves
 * before the segment is replaced.
 */
export async function interruptedIn(directory) {
  const lists = [...(await filesIn(directory, 'pending')), ...(await filesIn(directory, 'staging'))].filter((path) => path.endsWith('.removal'));
  const texts = await Promise.all(lists.map((path) => textOf(directory, path)));
  const interrupted = texts.map((text) => /"segment":"([^"]+)"/.exec(text)?.[1]);
  const segments = (await segmentsIn(directory)).filter(({ path }) => interrupted.includes(path));
  const removed = texts.flatMap((text) => [...idsOf(text, 'uploadId'), ...idsOf(text, 'upload_id')]);
  return [...segments.flatMap(({ ids }) => ids), ...removed.map((id) => `${id}-removed`)];
}

import { randomUUID } from 'node:crypto';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { filesIn } from '../../bench/support/store.mjs';
import { withDiskFaults } from './disk-faults.mjs';
import { segmentsIn } from './removal-findings.mjs';
import { removals, removalsInBucket } from './removals.mjs';

const RUN = { uploads: 300, kills: 1 };

const EXPECTED = {
  'the bytes of a removed upload left': ['halfShown', /^files\/.* has no line$/],
  'the line of a removed upload back': ['wrong', / was removed and is back$/],
  'events lost': ['findings', / was never delivered$/],
  'an event delivered again': ['findings', / was delivered again, and not because of a kill$/],
  'lines in another order than their events were delivered in': ['findings', /^the events of a segment were delivered out of order$/],
};

/**
 * Tests the parts `removals` and `removals-in-bucket`: they must find that a service answers a removal before the bytes
 * are gone, and each defect in a store that is damaged while the service is down.
 *
 * @param {(title: string, ledger: import('./ledger.mjs').Ledger, ok: boolean) => void} report reports a result
 */
export default async function removalsSelfTest({ random, progress, noBucket }, report) {
  const options = { ...RUN, random, progress };
  const early = await removals({ ...options, variables: withDiskFaults({ unremovable: 'files' }), damage: () => undefined });
  report('removals on disk, answered before the bytes are gone', early.ledger, has(early.findings, / was removed, and its bytes are left$/));
  const removedAgain = (removed) => ['events', `${removed.upload_id}.removed`, `${JSON.stringify(removed)}\n`];
  await expectAll('on disk', await removals({ ...options, damage: (store) => damage(store, removedAgain) }), report);
  if (noBucket) return;
  const removedAgainInBucket = (removed) => ['events/removed', removed.upload_id, JSON.stringify({ removed: [removed] })];
  await expectAll('in a bucket', await removalsInBucket({ ...options, damage: (store) => damage(store, removedAgainInBucket) }), report);
}

const has = (sentences, expected) => [...sentences].some((sentence) => expected.test(sentence));

async function expectAll(where, { ledger, findings }, report) {
  const found = { ...ledger, findings };
  for (const [title, [part, sentence]] of Object.entries(EXPECTED)) report(`removals ${where}, ${title}`, ledger, has(found[part], sentence));
}

/**
 * Damages a store in every way of `EXPECTED`.
 *
 * @param {(removed: object) => [string, string, string]} removedAgain the folder, the name and the content of the file
 *   that contains the event of a removal once more
 */
async function damage({ directory, ledger, receiver }, removedAgain) {
  const [bytes, line] = ledger.removedIds;
  const again = ledger.removedIds.find((id) => receiver.hasReceived(`${id}-removed`) && !receiver.mayRepeat(`${id}-removed`));
  const [file] = await filesIn(directory, 'files');
  await writeFile(join(directory, dirname(file), `${bytes}.csv`), '');
  const delivered = (await segmentsIn(directory)).filter(({ ids }) => ids.length > 0 && ids.every((id) => receiver.hasReceived(id)));
  delivered.sort((one, other) => receiver.orderOf(one.ids[0]) - receiver.orderOf(other.ids[0]));
  const [first, last] = [delivered.at(0), delivered.at(-1)].map(({ path }) => join(directory, path));
  await writeFile(first, (await readFile(last, 'utf8')) + (await readFile(first, 'utf8')));
  await rm(last);
  await writeFile(join(dirname(first), `${randomUUID()}.ndjson`), `${JSON.stringify({ upload_id: line, content_path: null })}\n`);
  await rm(join(directory, 'events'), { recursive: true });
  const [folder, name, content] = removedAgain({ upload_id: again, kind: 'historical', customer_id: 'c0', removed_at: new Date().toISOString() });
  await mkdir(join(directory, folder), { recursive: true });
  await writeFile(join(directory, folder, name), content);
}

import { randomUUID } from 'node:crypto';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { filesIn, inspect } from '../../bench/support/store.mjs';
import { withServices } from '../../bench/support/service.mjs';
import { withBucket } from './bucket.mjs';
import { withDiskFaults } from './disk-faults.mjs';
import forgetfulDisk from './forgetful-disk.mjs';
import { Ledger } from './ledger.mjs';
import { Load } from './load.mjs';
import powerCuts from './power-cuts.mjs';
import removalsSelfTest from './removals-self-test.mjs';

const UPLOADS = 200;

/**
 * Tests the crash tests: they must find lost uploads when nothing is flushed, bytes that are left when nothing is
 * removed, and every defect in a damaged store.
 *
 * @returns {Promise<boolean>} whether they found everything.
 */
export default async function selfTest(options) {
  const results = [];
  const report = (title, { lost, doubled, halfShown }, ok) => {
    results.push(ok);
    options.progress.clear();
    console.log(`self-test: ${title}: lost ${lost.size}, doubled ${doubled.size}, half shown ${halfShown.size}: ${ok ? 'found' : 'NOT FOUND'}`);
  };
  const onModel = await forgetfulDisk({ ...options, cuts: 1, ignored: ['sync', 'syncDirectory'] });
  report('power cuts, model of a disk, nothing flushed', onModel.ledger, onModel.ledger.lost.size > 0);
  if (options.noFileSystem) console.log(`self-test: power cuts, ext4 on a loop device: not run: ${options.noFileSystem}`);
  else {
    const unflushed = withDiskFaults({ ignoreFlushes: true });
    const { ledger } = await powerCuts({ ...options, cuts: 2, uploads: UPLOADS, variables: unflushed });
    report('power cuts, ext4 on a loop device, nothing flushed', ledger, ledger.lost.size > 0);
  }
  await withServices((services) => spoil(services, { where: 'on disk', directory: services.data }, options, report));
  if (options.noBucket) console.log(`self-test: object storage: not run: ${options.noBucket}`);
  else await withBucket((bucket) => withServices((services) => spoil(services, { where: 'in a bucket', ...bucket }, options, report)));
  await removalsSelfTest(options, report);
  return results.every(Boolean);
}

/**
 * Damages an intact store step by step, and reports after each step whether the comparison finds exactly this damage.
 * The steps remove a file, change a file, remove an index line, double an index line, store an upload twice, and leave
 * a file in staging.
 */
async function spoil(services, { where, directory, variables }, { random }, report) {
  const ledger = new Ledger({ mayRefuse: true });
  const service = await services.start(variables);
  const load = new Load(service, ledger, random);
  await load.until(() => ledger.acknowledged >= UPLOADS);
  await load.stop();
  await service.end('SIGTERM');
  const lines = [...(await inspect(directory)).lines.values()].filter((line) => line.content_size > 0);
  const expectFindings = async (title, lost, doubled, halfShown) => {
    const kinds = [ledger.lost, ledger.doubled, ledger.halfShown];
    for (const found of kinds) found.clear();
    await ledger.compare(directory);
    report(`${where}, ${title}`, ledger, kinds.every(({ size }, at) => size === [lost, doubled, halfShown][at]));
  };
  await expectFindings('nothing changed', 0, 0, 0);
  await rm(join(directory, lines[0].content_path));
  await expectFindings('bytes removed', 0, 0, 1);
  await writeFile(join(directory, lines[1].content_path), '');
  await expectFindings('bytes changed', 0, 0, 2);
  await removeLine(directory, lines[2].upload_id);
  await expectFindings('a line removed', 1, 0, 3);
  await addLine(directory, lines[3]);
  await expectFindings('a line doubled', 1, 1, 3);
  await addLine(directory, { ...lines[4], upload_id: 'another', content_path: null });
  await expectFindings('an upload stored twice', 1, 2, 3);
  await mkdir(join(directory, 'staging'), { recursive: true });
  await writeFile(join(directory, 'staging', 'left-over'), '');
  await expectFindings('a file left in staging/', 1, 2, 4);
}

async function addLine(directory, line) {
  const [segment] = await filesIn(directory, 'uploads');
  await writeFile(join(directory, dirname(segment), `${randomUUID()}.ndjson`), `${JSON.stringify(line)}\n`);
}

async function removeLine(directory, uploadId) {
  for (const segment of await filesIn(directory, 'uploads')) {
    const lines = (await readFile(join(directory, segment), 'utf8')).split('\n');
    await writeFile(join(directory, segment), lines.filter((line) => !line.includes(uploadId)).join('\n'));
  }
}

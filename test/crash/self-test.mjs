import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { filesIn, inspect } from '../../bench/support/store.mjs';
import { withServices } from '../../bench/support/service.mjs';
import { withDiskFaults } from './disk-faults.mjs';
import forgetfulDisk from './forgetful-disk.mjs';
import { Ledger } from './ledger.mjs';
import { Load } from './load.mjs';
import powerCuts from './power-cuts.mjs';

const UPLOADS = 200;

/**
 * The test of the tests: where nothing is flushed they must find losses, and in a store that isn't sound, what isn't.
 *
 * @returns {Promise<boolean>} whether they do.
 */
export default async function selfTest(options) {
  const results = [];
  const tell = (title, { lost, halfShown }, ok) => {
    results.push(ok);
    options.progress.clear();
    console.log(`self-test: ${title}: lost ${lost.size}, half shown ${halfShown.size}: ${ok ? 'found' : 'NOT FOUND'}`);
  };
  const onModel = await forgetfulDisk({ ...options, cuts: 1, ignored: ['sync', 'syncDirectory'] });
  tell('power cuts, model of a disk, nothing flushed', onModel.ledger, onModel.ledger.lost.size > 0);
  if (options.noFileSystem) console.log(`self-test: power cuts, ext4 on a loop device: not run: ${options.noFileSystem}`);
  else {
    const unflushed = withDiskFaults({ ignoreFlushes: true });
    const { ledger } = await powerCuts({ ...options, cuts: 2, uploads: UPLOADS, variables: unflushed });
    tell('power cuts, ext4 on a loop device, nothing flushed', ledger, ledger.lost.size > 0);
  }
  await withServices((services) => takeAway(services, options, tell));
  return results.every(Boolean);
}

/** Takes bytes and a line away from a sound store, and leaves something in it. */
async function takeAway(services, { random }, tell) {
  const ledger = new Ledger({ mayRefuse: true });
  const service = await services.start();
  const load = new Load(service, ledger, random);
  await load.until(() => ledger.acknowledged >= UPLOADS);
  await load.stop();
  await service.end('SIGTERM');
  const lines = [...(await inspect(services.data)).lines.values()].filter((line) => line.content_size > 0);
  const expectFindings = async (title, lost, halfShown) => {
    ledger.lost.clear();
    ledger.halfShown.clear();
    await ledger.compare(services.data);
    tell(title, ledger, ledger.lost.size === lost && ledger.halfShown.size === halfShown);
  };
  await rm(join(services.data, lines[0].content_path));
  await expectFindings('bytes taken away', 0, 1);
  await writeFile(join(services.data, lines[1].content_path), '');
  await expectFindings('other bytes', 0, 2);
  await removeLine(services.data, lines[2].upload_id);
  await expectFindings('a line taken away', 1, 3);
  await writeFile(join(services.data, 'staging', 'left-over'), '');
  await expectFindings('something left in staging/', 1, 4);
}

async function removeLine(data, uploadId) {
  for (const segment of await filesIn(data, 'uploads')) {
    const lines = (await readFile(join(data, segment), 'utf8')).split('\n');
    await writeFile(join(data, segment), lines.filter((line) => !line.includes(uploadId)).join('\n'));
  }
}

import { rehearsePowerCut } from '../../dist/testing/power-cut.rehearsal.js';

const REHEARSALS_PER_CUT = 20;

/**
 * Cuts the power of the local-disk adapter alone, without the rest of the service, on a simulated disk in memory. This
 * disk is fast, and loses everything that any file system may lose at a power cut.
 */
export default async function forgetfulDisk({ cuts, random, progress, ignored }) {
  const ledger = { acknowledged: 0, refused: 0, lost: new Set(), doubled: new Set(), halfShown: new Set(), wrong: new Set() };
  let cutsDone = 0;
  for (let rehearsal = 1; rehearsal <= cuts * REHEARSALS_PER_CUT; rehearsal++) {
    const seed = random.below(2 ** 31);
    const report = await rehearsePowerCut(seed, { ignored });
    cutsDone += report.cuts;
    ledger.acknowledged += report.acknowledged;
    ledger.refused += report.refused;
    for (const finding of report.lost) ledger.lost.add(`${finding} (rehearsal ${seed})`);
    for (const finding of report.halfShown) ledger.halfShown.add(`${finding} (rehearsal ${seed})`);
    for (const finding of report.eventErrors) ledger.wrong.add(`${finding} (rehearsal ${seed})`);
    progress.show(`power cuts on a model disk: ${cutsDone}, ${ledger.acknowledged} acknowledged`);
  }
  return { title: 'power cuts, model of a disk', runs: `${cutsDone} cuts`, ledger };
}

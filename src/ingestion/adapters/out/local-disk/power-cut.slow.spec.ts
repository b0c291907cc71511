import { describe, expect, it } from 'vitest';
import { rehearsePowerCut } from '../../../../testing/power-cut.rehearsal.js';

const SEEDS = Array.from({ length: 150 }, (_, seed) => seed);

describe('after a power cut that loses unsynced data', () => {
  it('every acknowledged upload is stored, every removed one is gone, the events of both are delivered, and no upload is stored in part', async () => {
    const findings: string[] = [];
    let [acknowledged, removed, erasures, delivered, deliveredAgain] = [0, 0, 0, 0, 0];
    for (const seed of SEEDS) {
      const report = await rehearsePowerCut(seed);
      acknowledged += report.acknowledged;
      removed += report.removed;
      erasures += report.erasures;
      delivered += report.delivered;
      deliveredAgain += report.deliveredAgain;
      findings.push(...[...report.lost, ...report.halfShown, ...report.eventErrors].map((finding) => `seed ${seed}: ${finding}`));
    }
    expect(findings).toEqual([]);
    expect(acknowledged).toBeGreaterThan(1_000);
    expect(removed).toBeGreaterThan(30);
    expect(erasures).toBeGreaterThan(10);
    expect(delivered).toBeGreaterThan(acknowledged);
    expect(deliveredAgain).toBeGreaterThan(0);
  });

  it('the same seed produces the same run', async () => {
    const [first, second] = [await rehearsePowerCut(10), await rehearsePowerCut(10)];
    expect(first.acknowledged).toBeGreaterThan(0);
    expect(second).toEqual(first);
  });

  it.each([
    ['files', ['sync']],
    ['directories', ['syncDirectory']],
    ['anything', ['sync', 'syncDirectory']],
  ] as const)('losses would be found if syncs of %s did nothing', async (_, ignored) => {
    let [lost, halfShown] = [0, 0];
    for (const seed of SEEDS.slice(0, 30)) {
      const report = await rehearsePowerCut(seed, { ignored });
      lost += report.lost.length;
      halfShown += report.halfShown.length;
    }
    expect(lost).toBeGreaterThan(0);
    expect(halfShown).toBeGreaterThan(0);
  });
});

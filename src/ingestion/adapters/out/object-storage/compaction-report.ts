import { messageOf } from '../../../../common/error-message.js';
import { count, number, printable } from '../../../../common/report-text.js';
import { oneLine } from '../../../../common/text.js';
import type { CompactionRun } from './compaction-run.js';

export type CompactionReport = (run: CompactionRun) => AsyncGenerator<string>;

/** A report for a person: lines for what was merged, removed, left alone, in progress or failed, then a summary. */
export async function* textReport(run: CompactionRun): AsyncGenerator<string> {
  const { totals, dryRun } = run;
  const become = dryRun ? 'would become' : 'became';
  const removed = dryRun ? 'would be removed' : 'removed';
  for await (const outcome of run) {
    if ('error' in outcome) {
      yield line(`failed: ${outcome.path}: ${oneLine(messageOf(outcome.error))}`);
      continue;
    }
    const { kind, date, sources, targets, fences, malformed, isBusy } = outcome;
    const path = `uploads/kind=${kind}/date=${date}`;
    for (const { key, problem } of malformed) yield line(`left alone: ${key}: ${problem}`);
    if (sources > 0) yield line(`${path}: ${count(sources, 'segment')} ${become} ${number(targets)}`);
    if (fences > 0) yield line(`${path}: ${count(fences, 'empty segment')} ${removed}`);
    if (isBusy) yield line(`in progress: ${path}: another process is working on it`);
  }
  const { sources, targets, bytes, fences, claims, malformed, failed, underWay } = totals;
  const counts = [
    count(run.days.length, 'day'),
    `${count(sources, 'segment')} (${count(bytes, 'byte')}) ${become} ${number(targets)}`,
    `${count(fences, 'empty segment')} and ${count(claims, 'claim')} ${removed}`,
    ...(malformed > 0 ? [`${number(malformed)} left alone`] : []),
    ...(underWay > 0 ? [`${number(underWay)} in progress`] : []),
    ...(failed > 0 ? [`${number(failed)} failed`] : []),
  ];
  yield line(counts.join(', '));
}

/** A report for a script: a JSON object on a line for each day, malformed segment and failure, then for the summary. */
export async function* jsonReport(run: CompactionRun): AsyncGenerator<string> {
  for await (const outcome of run) {
    if ('error' in outcome) {
      yield json({ state: 'failed', path: outcome.path, detail: oneLine(messageOf(outcome.error)) });
      continue;
    }
    const { kind, date, sources, targets, bytes, fences, malformed, isBusy } = outcome;
    for (const { key, problem } of malformed) yield json({ state: 'malformed', path: key, detail: problem });
    yield json({ state: isBusy ? 'under-way' : 'compacted', path: `uploads/kind=${kind}/date=${date}`, sources, targets, bytes, fences });
  }
  const { underWay: under_way, ...totals } = run.totals;
  yield json({ summary: { days: run.days.length, ...totals, under_way, dry_run: run.dryRun } });
}

const json = (value: object): string => `${JSON.stringify(value)}\n`;

const line = (text: string): string => `${printable(text)}\n`;

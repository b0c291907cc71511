import { openBucket } from '../app/bucket.factory.js';
import { CommandError, commandArguments, runCommand } from './command.js';
import { writeReport } from './progress-line.js';
import { loadEnvironment } from '../configuration/service.js';
import { closedDays, isClosed } from '../ingestion/adapters/out/object-storage/compaction-days.js';
import { type CompactionReport, jsonReport, textReport } from '../ingestion/adapters/out/object-storage/compaction-report.js';
import { CompactionRun } from '../ingestion/adapters/out/object-storage/compaction-run.js';
import type { Day } from '../ingestion/adapters/out/object-storage/segment-names.js';
import { isDate } from '../ingestion/domain/layout-names.js';
import { UPLOAD_KINDS } from '../ingestion/domain/upload.js';

const HELP = `load-data-service compact [--date YYYY-MM-DD] [--kind historical|nowcast] [--dry-run] [--json]

Merges the small segments of past days in a bucket into a few large ones, and removes expired idempotency keys. The
service does so too, for the last week. Both may run at once.

  --date      one day only, in UTC
  --kind      one kind only
  --dry-run   says what would be done, and changes nothing
  --json      print JSON lines: one per day and finding, then the summary
  --help      this text

Examples:
  npx load-data-service compact --date 2026-11-21 --dry-run
  npm run --silent compact -- --date 2026-11-21 --dry-run     (in a clone)

Exit code: 0 done, 1 malformed segments were left alone, 2 something couldn't be done, or wrong usage.
`;
const OPTIONS = {
  date: { type: 'string' },
  kind: { type: 'string' },
  'dry-run': { type: 'boolean', default: false },
  json: { type: 'boolean', default: false },
} as const;

async function main(): Promise<number> {
  const given = commandArguments({ help: HELP, options: OPTIONS }, ({ date, kind, 'dry-run': dryRun, json }) => {
    const kinds = UPLOAD_KINDS.filter((known) => kind === undefined || kind === known);
    if (kinds.length === 0) throw new Error('--kind must be historical or nowcast');
    if (date !== undefined && !isDate(date)) throw new Error('--date must be a day in the form YYYY-MM-DD');
    if (date !== undefined && !isClosed(date, Date.now())) throw new Error('--date must be a UTC day that ended at least ten minutes ago');
    return { kinds, date, dryRun, json };
  });
  if (!given) return 0;
  const { kinds, date, dryRun, json } = given;
  const { fileStorage, maxUploadBytes } = loadEnvironment();
  if (fileStorage.adapter === 'local') {
    process.stdout.write('FILE_STORAGE is local: the segments on a local disk are large already.\n');
    return 0;
  }
  if (fileStorage.adapter === 'module') throw new CommandError('FILE_STORAGE is a module, whose store only the module can compact.');
  const bucket = await openBucket(fileStorage, maxUploadBytes);
  try {
    const days: Day[] = date === undefined ? [] : kinds.map((kind) => ({ kind, date }));
    if (date === undefined) for await (const day of closedDays(bucket, kinds)) days.push(day);
    return await printReport(new CompactionRun(bucket, days, dryRun), json ? jsonReport : textReport);
  } finally {
    bucket.close();
  }
}

async function printReport(run: CompactionRun, report: CompactionReport): Promise<number> {
  await writeReport(report(run), () => `${run.progress.days} of ${run.days.length} days, ${run.progress.segmentsRead} segments read`);
  const { malformed, failed } = run.totals;
  return failed > 0 ? 2 : malformed > 0 ? 1 : 0;
}

await runCommand(main, 2);

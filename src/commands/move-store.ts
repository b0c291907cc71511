import { openBucket } from '../app/bucket.factory.js';
import { CommandError, commandArguments, runCommand } from './command.js';
import { ProgressLine } from './progress-line.js';
import { DataDirectoryInUseError } from '../common/data-directory/data-directory-lock.js';
import { progressBar } from '../common/progress-bar.js';
import { count, printable } from '../common/report-text.js';
import { type Environment, loadEnvironment } from '../configuration/service.js';
import { LocalDiskFileStorage } from '../ingestion/adapters/out/local-disk/local-disk.file-storage.adapter.js';
import { openDirectorySource } from '../ingestion/adapters/out/local-disk/store-move/directory-source.js';
import { type MoveProblem, StoreMove } from '../ingestion/adapters/out/object-storage/store-move/store-move.js';

const HELP = `load-data-service move --to s3|azure [--dry-run] [--json]

Moves the uploads in DATA_DIR to an empty bucket, which S3_… or AZURE_STORAGE_… name. DATA_DIR stays as it is.
While the service runs, only files are copied. Stop the service and run the command again: it copies what is new, and
then the lines and idempotency keys. If the command is interrupted, run it again to continue.

  --to        s3 or azure
  --dry-run   counts what would be copied, and changes nothing
  --json      print JSON lines: one per problem, then the summary
  --help      this text

Examples:
  npx load-data-service move --to s3 --dry-run
  npm run --silent move:store -- --to s3 --dry-run     (in a clone)

Exit code: 0 all is in the bucket, 1 a line or file can't be moved, 2 something couldn't be done, or wrong usage, 3 the service must be stopped for the last step.
`;
const OPTIONS = {
  to: { type: 'string' },
  'dry-run': { type: 'boolean', default: false },
  json: { type: 'boolean', default: false },
} as const;

type Result = 'moved' | 'moved before' | 'would be moved' | 'not moved' | 'waits for the service to stop';
const EXIT_CODES: Readonly<Record<Result, number>> = {
  moved: 0,
  'moved before': 0,
  'would be moved': 0,
  'not moved': 1,
  'waits for the service to stop': 3,
};

interface MoveArguments {
  readonly to: 's3' | 'azure';
  readonly dryRun: boolean;
  readonly json: boolean;
}

async function main(): Promise<number> {
  const wanted = commandArguments({ help: HELP, options: OPTIONS }, ({ to, 'dry-run': dryRun, json }): MoveArguments => {
    if (to !== 's3' && to !== 'azure') throw new Error('--to must be s3 or azure');
    return { to, dryRun, json };
  });
  if (!wanted) return 0;
  const environment = loadEnvironment({ FILE_STORAGE: wanted.to });
  const { fileStorage, dataDirectory, maxUploadBytes } = environment;
  if (fileStorage.adapter !== 's3' && fileStorage.adapter !== 'azure') throw new CommandError('--to must be s3 or azure');
  const source = await openDirectorySource(dataDirectory);
  if (!source) throw new CommandError(`There is no store in ${dataDirectory}: set DATA_DIR to that of the service.`);
  const bucket = await openBucket(fileStorage, maxUploadBytes);
  const move = new StoreMove(source, bucket, wanted.dryRun);
  const progress = new ProgressLine(() => progressText(move));
  const reportProblem = ({ path, detail }: MoveProblem): void => {
    const line = wanted.json ? JSON.stringify({ path, detail }) : printable(`${path}: ${detail}`);
    progress.write(`${line}\n`);
  };
  try {
    const result = await run(move, environment, wanted, reportProblem);
    progress.end();
    process.stdout.write(wanted.json ? jsonSummary(move, result) : textSummary(move, result, wanted));
    return EXIT_CODES[result];
  } finally {
    progress.end();
    bucket.close();
  }
}

async function run(move: StoreMove, { dataDirectory }: Environment, { dryRun }: MoveArguments, reportProblem: (problem: MoveProblem) => void): Promise<Result> {
  if (await move.begin()) return 'moved before';
  const hasProblem = (): boolean => move.totals.problems > 0;
  if (dryRun) {
    for await (const problem of move.copyFiles(false)) reportProblem(problem);
    return hasProblem() ? 'not moved' : 'would be moved';
  }
  const storage = await openUnlessInUse(dataDirectory);
  if (!storage) {
    for await (const problem of move.copyFiles(false)) reportProblem(problem);
    // A service that has stopped meanwhile may have crashed, and be starting again: only a new run takes the last step.
    return hasProblem() ? 'not moved' : 'waits for the service to stop';
  }
  const { eventOutbox } = storage;
  try {
    if (await eventOutbox.next(1)) {
      throw new CommandError("Events of some uploads haven't been delivered yet. Start the service until load_data_events_lag_seconds is 0, stop it, and run this again.");
    }
    for await (const problem of move.finish(() => storage.assertHere())) reportProblem(problem);
    if (hasProblem()) return 'not moved';
    return move.wasMovedBefore ? 'moved before' : 'moved';
  } finally {
    await storage.close();
  }
}

async function openUnlessInUse(directory: string): Promise<LocalDiskFileStorage | undefined> {
  const logger = { warn: (message: string) => void process.stderr.write(`${message}\n`) };
  try {
    return await LocalDiskFileStorage.open({ directory, logger });
  } catch (error) {
    if (error instanceof DataDirectoryInUseError) return undefined;
    throw error;
  }
}

function progressText({ progress, totals }: StoreMove): string {
  const { phase, done, total } = progress;
  if (phase === 'counting') return `counting uploads (${totals.uploads})`;
  const bar = progressBar(total === 0 ? 0 : Math.min(1, done / total));
  return phase === 'files' ? `${bar} copying files (${totals.copiedFiles} copied)` : `${bar} writing lines (${done} of ${total})`;
}

function jsonSummary({ totals }: StoreMove, result: Result): string {
  const { uploads, files, bytes, copiedFiles, copiedBytes, problems } = totals;
  const summary = { uploads, files, bytes, copied_files: copiedFiles, copied_bytes: copiedBytes, problems, result };
  return `${JSON.stringify({ summary })}\n`;
}

function textSummary({ totals }: StoreMove, result: Result, { to }: MoveArguments): string {
  const { uploads, files, bytes, copiedFiles, copiedBytes, problems } = totals;
  const all = `${count(uploads, 'upload')}, ${count(files, 'file')}, ${count(bytes, 'byte')}`;
  const copied = `${count(copiedFiles, 'file')}, ${count(copiedBytes, 'byte')}`;
  switch (result) {
    case 'moved':
      return `Moved ${all}. Start the service with FILE_STORAGE=${to}.\n`;
    case 'moved before':
      return `The store was moved to the bucket before. Start the service with FILE_STORAGE=${to}.\n`;
    case 'would be moved':
      return `Would move ${all}, and copy ${copied} of these.\n`;
    case 'not moved':
      return `${count(problems, 'problem')}: docs/checking-a-store.md says what to do. The move is not complete.\n`;
    case 'waits for the service to stop':
      return `Copied ${copied}. Stop the service, and run this again for the last step.\n`;
  }
}

await runCommand(main, 2);

import { openBucket } from '../app/bucket.factory.js';
import { CommandError, commandArguments, runCommand } from './command.js';
import { writeReport } from './progress-line.js';
import { loadEnvironment } from '../configuration/service.js';
import { verifyStore } from '../ingestion/adapters/out/local-disk/store-verification/directory-view.js';
import { verifyBucket } from '../ingestion/adapters/out/object-storage/store-verification/bucket-view.js';
import { verificationProgress } from '../ingestion/application/store-verification/verification-progress.js';
import { jsonReport, type Report, textReport } from '../ingestion/application/store-verification/report.js';
import type { StoreVerification } from '../ingestion/application/store-verification/store-verification.js';

const HELP = `load-data-service verify [--json] [<directory>]

Compares every line of the index with its file, and every file with the index: in the DATA_DIR or the bucket that
FILE_STORAGE chose, or in another directory.
It writes nothing and may run beside the service. Work in progress is reported, but isn't a defect.

  --json   print JSON lines: one per finding, then the summary
  --help   this text

Examples:
  npx load-data-service verify --json /var/lib/load-data
  npm run --silent verify:store -- --json /var/lib/load-data     (in a clone)

Exit code: 0 no defect, 1 defects, 2 something couldn't be checked, or wrong usage.
`;
const OPTIONS = { json: { type: 'boolean', default: false } } as const;

async function main(): Promise<number> {
  const given = commandArguments({ help: HELP, options: OPTIONS, allowPositionals: true }, ({ json }, directories) => {
    if (directories.length > 1) throw new Error('only one directory can be given');
    if (directories[0] === '') throw new Error('the directory is empty');
    return { json, directory: directories[0] };
  });
  if (!given) return 0;
  const { directory } = given;
  if (directory !== undefined) return report(verifyStore(directory), given);
  const { fileStorage, dataDirectory, maxUploadBytes } = loadEnvironment();
  if (fileStorage.adapter === 'local') return report(verifyStore(dataDirectory), given);
  if (fileStorage.adapter === 'module') throw new CommandError('FILE_STORAGE is a module, whose store only the module can check.');
  const bucket = await openBucket(fileStorage, maxUploadBytes);
  try {
    return await report(verifyBucket(bucket), given);
  } finally {
    bucket.close();
  }
}

async function report(verification: StoreVerification, { json }: { json: boolean }): Promise<number> {
  const lines: Report = json ? jsonReport : textReport;
  await writeReport(lines(verification), () => verificationProgress(verification));
  const { defects, unknown } = verification.totals;
  return unknown > 0 ? 2 : defects > 0 ? 1 : 0;
}

await runCommand(main, 2);

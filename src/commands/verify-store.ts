import { parseArgs } from 'node:util';
import { openBucket } from '../app/bucket.factory.js';
import { CommandError, commandArguments, runCommand } from './command.js';
import { writeReport } from './progress-line.js';
import { loadEnvironment } from '../configuration/service.js';
import { verifyStore } from '../ingestion/adapters/out/local-disk/store-verification/directory-view.js';
import { verifyBucket } from '../ingestion/adapters/out/object-storage/store-verification/bucket-view.js';
import { verificationProgress } from '../ingestion/application/store-verification/verification-progress.js';
import { jsonReport, type Report, textReport } from '../ingestion/application/store-verification/report.js';
import type { StoreVerification } from '../ingestion/application/store-verification/store-verification.js';

const USAGE = 'load-data-service verify [--json] [<directory>]';
const HELP = `${USAGE}

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

function given() {
  const options = { json: { type: 'boolean', default: false }, help: { type: 'boolean', default: false } } as const;
  const parsed = parseArgs({ options, allowPositionals: true });
  if (parsed.positionals.length > 1 || parsed.positionals.includes('')) throw new Error('only one directory can be given');
  return parsed;
}

async function main(): Promise<number> {
  const { values, positionals } = commandArguments(USAGE, given);
  if (values.help) {
    process.stdout.write(HELP);
    return 0;
  }
  const [directory] = positionals;
  if (directory !== undefined) return report(verifyStore(directory), values);
  const { fileStorage, dataDirectory, maxUploadBytes } = loadEnvironment();
  if (fileStorage.adapter === 'local') return report(verifyStore(dataDirectory), values);
  if (fileStorage.adapter === 'module') throw new CommandError('FILE_STORAGE is a module, whose store only the module can check.');
  const bucket = await openBucket(fileStorage, maxUploadBytes);
  try {
    return await report(verifyBucket(bucket), values);
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

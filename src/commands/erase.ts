import { openFileStorage } from '../app/file-storage.factory.js';
import { commandArguments, runCommand } from './command.js';
import { ProgressLine } from './progress-line.js';
import { removalProgress } from './removal-progress.js';
import { count } from '../common/report-text.js';
import { loadEnvironment } from '../configuration/service.js';
import { openDirectory } from '../ingestion/adapters/out/local-disk/store-verification/directory-view.js';
import type { RemovalProgress } from '../ingestion/application/ports/stored-uploads.port.js';
import { storedUploadsOf } from '../ingestion/application/stored-uploads-of.js';
import { parseTime } from '../ingestion/domain/upload-filter.js';
import { isCustomerId } from '../ingestion/domain/upload.js';

const HELP = `load-data-service erase --customer <id> [--before <time>] [--dry-run] [--json]

Removes all uploads of a customer for good: their lines, their bytes and their idempotency keys. On a local disk the
service must be stopped; with a bucket it may run. If the command is interrupted, run it again to remove the rest.

  --customer   the customer_id of the uploads
  --before     only uploads received before this time, for example 2026-01-01T00:00:00Z
  --dry-run    counts the uploads, and removes none; what a crash has left on a local disk is repaired all the same
  --json       prints the result as one JSON object
  --help       this text

Examples:
  npx load-data-service erase --customer acme-energy --dry-run
  npm run --silent erase -- --customer acme-energy --dry-run     (in a clone)

Exit code: 0 done, 2 something couldn't be removed, or wrong usage.
`;
const OPTIONS = {
  customer: { type: 'string' },
  before: { type: 'string' },
  'dry-run': { type: 'boolean', default: false },
  json: { type: 'boolean', default: false },
} as const;

async function main(): Promise<number> {
  const given = commandArguments({ help: HELP, options: OPTIONS }, ({ customer: customerId, before, 'dry-run': dryRun, json }) => {
    if (!isCustomerId(customerId)) throw new Error('--customer must be the id of a customer');
    const to = before === undefined ? undefined : parseTime(before);
    if (before !== undefined && !to) throw new Error('--before must be a time such as 2026-01-01T00:00:00Z');
    return { customerId, to, dryRun, json };
  });
  if (!given) return 0;
  const { customerId, to, dryRun, json } = given;
  // Warnings go to standard error, because standard output has only the result.
  const logger = { warn: (message: string) => void process.stderr.write(`${message}\n`) };
  const environment = loadEnvironment();
  // `openDirectory` fails if there is no store in DATA_DIR. Otherwise `openFileStorage` would create an empty store
  // there, and the command would report success.
  if (environment.fileStorage.adapter === 'local') await openDirectory(environment.dataDirectory);
  const storage = await openFileStorage(environment, { logger });
  let done: RemovalProgress = { segments: 0, allSegments: 0, uploads: 0 };
  const progress = new ProgressLine(() => removalProgress(done));
  try {
    const onProgress = (now: RemovalProgress): void => {
      done = now;
    };
    const uploads = await storedUploadsOf(storage).removeAll({ customerId, to }, { dryRun, onProgress });
    progress.end();
    const verb = dryRun ? 'would be removed' : uploads === 1 ? 'was removed' : 'were removed';
    process.stdout.write(json ? `${JSON.stringify({ customer_id: customerId, uploads, dry_run: dryRun })}\n` : `${count(uploads, 'upload')} ${verb}.\n`);
    return 0;
  } finally {
    progress.end();
    await storage.close();
  }
}

await runCommand(main, 2);

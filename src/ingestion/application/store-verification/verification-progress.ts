import { progressBar } from '../../../common/progress-bar.js';
import type { StoreVerification } from './store-verification.js';

const PHASES = { listing: 'listing files', lines: 'checking uploads', matching: 'matching files' } as const;

/** The progress of a verification as one line of text. */
export function verificationProgress({ progress, totals }: StoreVerification): string {
  const share = progress.total === 0 ? 0 : Math.min(1, progress.done / progress.total);
  const mebibytes = Math.floor(totals.bytes / 2 ** 20);
  const counts = `${totals.uploads} uploads, ${totals.files} files, ${mebibytes} MiB, ${totals.defects} defects`;
  return `${progressBar(share)} ${PHASES[progress.phase]} (${counts})`;
}

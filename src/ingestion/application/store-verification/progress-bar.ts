import type { StoreVerification } from './store-verification.js';

const WIDTH = 20;
const PHASES = { listing: 'listing files', lines: 'checking uploads', matching: 'matching files' } as const;

/** The progress of a verification as one line of text. */
export function progressBar({ progress, totals }: StoreVerification): string {
  const share = progress.total === 0 ? 0 : Math.min(1, progress.done / progress.total);
  const bar = '#'.repeat(Math.round(share * WIDTH)).padEnd(WIDTH, '.');
  const mebibytes = Math.floor(totals.bytes / 2 ** 20);
  const counts = `${totals.uploads} uploads, ${totals.files} files, ${mebibytes} MiB, ${totals.defects} defects`;
  return `[${bar}] ${String(Math.floor(share * 100)).padStart(3)} % ${PHASES[progress.phase]} (${counts})`;
}

import { progressBar } from '../../../common/progress-bar.js';

export interface VerificationTotals {
  /** The number of whole lines in the index, even malformed ones. */
  uploads: number;
  files: number;
  bytes: number;
  defects: number;
  underWay: number;
  unknown: number;
}

export interface VerificationProgress {
  phase: 'listing' | 'lines' | 'matching';
  /** The progress of the phase in bytes of the index; `total` is an estimate. Both are 0 in the phase `listing`. */
  done: number;
  total: number;
}

interface Verification {
  readonly totals: Readonly<VerificationTotals>;
  readonly progress: Readonly<VerificationProgress>;
}

const PHASES = { listing: 'listing files', lines: 'checking uploads', matching: 'matching files' } as const;

/** Formats the progress of a verification as one line of text. */
export function verificationProgress({ progress, totals }: Verification): string {
  const share = progress.total === 0 ? 0 : Math.min(1, progress.done / progress.total);
  const mebibytes = Math.floor(totals.bytes / 2 ** 20);
  const counts = `${totals.uploads} uploads, ${totals.files} files, ${mebibytes} MiB, ${totals.defects} defects`;
  return `${progressBar(share)} ${PHASES[progress.phase]} (${counts})`;
}

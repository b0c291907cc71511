import { progressBar } from '../../../common/progress-bar.js';

/** Counts of what the verification has checked so far. */
export interface VerificationTotals {
  /** Number of whole lines in the index, even malformed ones. Each counts as an upload. */
  uploads: number;
  /** Number of uploaded files whose names belong to the layout. */
  files: number;
  /** How many bytes of files were read to compare them with their lines. */
  bytes: number;
  defects: number;
  underWay: number;
  /** Number of findings about things that couldn't be checked. */
  unknown: number;
}

/** How far the verification has come in its current phase. */
export interface VerificationProgress {
  phase: 'listing' | 'lines' | 'matching';
  /**
   * `done`: how many bytes of the index this phase has read. `total`: about how many bytes the phase has to read. Both
   * are 0 in the phase `listing`.
   */
  done: number;
  total: number;
}

/** A verification that is running or has ended. */
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

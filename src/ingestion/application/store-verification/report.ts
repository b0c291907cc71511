import { count, number, printable } from '../../../common/report-text.js';
import type { Finding } from './finding.js';
import type { StoreVerification } from './store-verification.js';

/** Formats the findings of a verification as lines of text, each with its newline. The last line is the summary. */
export type Report = (verification: StoreVerification) => AsyncGenerator<string>;

/** Writes the report of a verification for a person: one line for each finding, then the summary. */
export async function* textReport(verification: StoreVerification): AsyncGenerator<string> {
  for await (const finding of verification) yield `${textOf(finding)}\n`;
  const { uploads, files, bytes, defects, underWay, unknown } = verification.totals;
  const counts = [
    count(uploads, 'upload'),
    count(files, 'file'),
    count(bytes, 'byte'),
    count(defects, 'defect'),
    ...(underWay > 0 ? [`${number(underWay)} in progress`] : []),
    ...(unknown > 0 ? [`${number(unknown)} not checked`] : []),
  ];
  yield `${counts.join(', ')}\n`;
}

/** Writes the report of a verification as lines of JSON: one object for each finding, then one with the summary. */
export async function* jsonReport(verification: StoreVerification): AsyncGenerator<string> {
  for await (const { state, kind, path, uploadId, line, detail } of verification) {
    const { segment = null, offset = null } = line ?? {};
    yield `${JSON.stringify({ state, kind, path, upload_id: uploadId, segment, offset, detail })}\n`;
  }
  const { uploads, files, bytes, defects, underWay, unknown } = verification.totals;
  yield `${JSON.stringify({ summary: { uploads, files, bytes, defects, under_way: underWay, unknown } })}\n`;
}

const PREFIXES = { defect: '', 'under-way': 'in progress: ', unknown: 'not checked: ' } as const;

function textOf({ state, path, uploadId, line, detail }: Finding): string {
  const where = line?.segment === path ? `${path} at byte ${line.offset}` : path;
  const upload = uploadId !== null && !path.includes(uploadId) ? ` (upload ${uploadId})` : '';
  return printable(`${PREFIXES[state]}${where}${upload}: ${detail}`);
}

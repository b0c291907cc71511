import { z } from 'zod';
import { isJsonObject } from '../../../common/text.js';
import { contentPath, dayDirectory } from '../../domain/layout.js';
import { isDate, UPLOAD_ID } from '../../domain/layout-names.js';
import { UPLOAD_KINDS } from '../../domain/upload.js';

const isTime = (text: string): boolean =>
  /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/.test(text) && isDate(text.slice(0, 10)) && !Number.isNaN(Date.parse(text));

const absent = ({ input }: { input?: unknown }): string | undefined => (input === undefined ? 'is missing' : undefined);
const text = z.string({ error: (issue) => absent(issue) ?? "isn't a text" });
const NO_SIZE = "isn't a number of bytes";
const nullable = <Schema extends z.ZodType>(schema: Schema) => z.nullable(schema);

/** The rules for index lines, from docs/durability.md, "What is in a line". Members without a rule are ignored. */
const INDEX_LINE = z
  .object({
    upload_id: text.regex(UPLOAD_ID, "isn't a UUID in lower case"),
    kind: z.enum(UPLOAD_KINDS, { error: (issue) => absent(issue) ?? 'is unknown' }),
    customer_id: text,
    filename: text,
    manufacturer: text,
    additional_data: nullable(text),
    received_at: text.refine(isTime, "isn't a time in UTC"),
    content_path: nullable(text),
    content_type: nullable(text),
    content_size: nullable(z.number({ error: (issue) => absent(issue) ?? NO_SIZE }).int(NO_SIZE).nonnegative(NO_SIZE)),
    content_sha256: nullable(text.regex(/^[0-9a-f]{64}$/, "isn't a sha-256 in lower-case hex")),
  })
  .superRefine((line, context) => {
    const { content_path, content_type, content_size, content_sha256 } = line;
    const set = [content_path, content_type, content_size, content_sha256].filter((member) => member !== null).length;
    if (set !== 0 && set !== 4) context.addIssue({ code: 'custom', message: 'some content_ members are null and some are not' });
    else if (content_path !== null && !isOwnPath(content_path, line)) {
      context.addIssue({ code: 'custom', path: ['content_path'], message: "is not the upload's own" });
    }
  });

export type CheckedLine = z.infer<typeof INDEX_LINE>;

const isOwnPath = (path: string, line: Pick<CheckedLine, 'kind' | 'customer_id' | 'filename' | 'upload_id'>): boolean => {
  const date = /\/date=([\d-]+)\/[^/]*$/.exec(path)?.[1] ?? '';
  if (!isDate(date) || /\p{Surrogate}/u.test(line.customer_id)) return false;
  const { kind, customer_id: customerId, filename, upload_id: uploadId } = line;
  return path === contentPath({ kind, customerId, filename, uploadId, beganAt: new Date(date) });
};

/**
 * Checks the contents of an index line, and whether it is in the right directory.
 *
 * @param directory the directory of the line's segment, relative to the store's root.
 */
export function checkLine(value: unknown, directory: string): { line: CheckedLine } | { problem: string } {
  if (!isJsonObject(value)) return { problem: 'not a JSON object in UTF-8' };
  const { success, data: line, error } = INDEX_LINE.safeParse(value);
  if (!success) return { problem: error.issues.map(({ path, message }) => [...path, message].join(' ')).join(', ') };
  const misplaced = dayDirectory(line.kind, line.received_at.slice(0, 10)) !== directory;
  return misplaced ? { problem: "kind or received_at is another than its directory's" } : { line };
}

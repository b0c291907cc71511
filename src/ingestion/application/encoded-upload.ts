import { createHash } from 'node:crypto';
import { JsonReader } from '../../common/json-reader.js';
import { forEachPiece, LONG_TEXT } from '../../common/text.js';
import { Turns } from '../../common/turns.js';
import { requestIdentity } from '../domain/idempotency.js';
import { indexLine, parseIndexLine, uploadDescription } from '../domain/layout.js';
import type { Upload } from '../domain/upload.js';

/**
 * The member `additional_data` of an index line, with an empty text. A long text is inserted between its quotes. No
 * text in a line can contain this string, because JSON escapes the quotes in texts.
 */
const EMPTY_TEXT = '"additional_data":""';
const TEXT_BEGIN = '"additional_data":"';
const TEXT_END = '","received_at":"';
/** The longest JSON encoding of a UTF-16 unit, in bytes: `\u0000`. */
const MOST_BYTES_PER_UNIT = 6;
const LONG_LINE_BYTES = 64 * 1024;
const STEP_BYTES = 16 * 1024;

/**
 * Takes the place of a long `additional_data` in a `requestIdentity`, which is then split at this character. A control
 * character, because no other text of an upload may contain one.
 */
const PLACEHOLDER = '\u0000';

const hasLongText = ({ additionalData }: Upload): boolean => (additionalData?.length ?? 0) > LONG_TEXT;

/** The text as JSON, without the quotes around it. */
const escaped = (text: string): string => JSON.stringify(text).slice(1, -1);

/**
 * The bytes of an upload's index line, with its newline. Encodes like `indexLine`, but yields to other work if
 * `additional_data` is long.
 */
export const encodeIndexLine = (upload: Upload): Buffer | Promise<Buffer> => encode(upload, lineWithNewline);

/**
 * The bytes of an upload's JSON description for clients (`uploadDescription`). Yields to other work if
 * `additional_data` is long.
 */
export const encodeDescription = (upload: Upload): Buffer | Promise<Buffer> => encode(upload, uploadDescription);

const lineWithNewline = (upload: Upload): string => `${indexLine(upload)}\n`;

/**
 * Encodes an upload as JSON in UTF-8.
 *
 * @param write returns the JSON of an upload, with the member `additional_data`. A long text isn't passed to `write`:
 *   it is encoded in pieces, and inserted into the JSON of the upload with an empty text.
 */
function encode(upload: Upload, write: (upload: Upload) => string): Buffer | Promise<Buffer> {
  return hasLongText(upload) ? encodeLong(upload, write) : Buffer.from(write(upload));
}

async function encodeLong(upload: Upload, write: (upload: Upload) => string): Promise<Buffer> {
  const text = upload.additionalData ?? '';
  const line = write({ ...upload, additionalData: '' });
  const textAt = line.indexOf(EMPTY_TEXT) + TEXT_BEGIN.length;
  // The buffer has room for the longest possible encoding of the text, so it is probably longer than the line. Its
  // pages that are never written take no memory.
  const bytes = Buffer.allocUnsafeSlow(Buffer.byteLength(line) + text.length * MOST_BYTES_PER_UNIT);
  let length = bytes.write(line.slice(0, textAt));
  await forEachPiece(text, (piece) => {
    length += bytes.write(escaped(piece), length);
  });
  length += bytes.write(line.slice(textAt), length);
  return bytes.subarray(0, length);
}

/**
 * The upload that an index line describes; undefined if the line isn't valid. Yields to other work if the line is long.
 */
export async function decodeIndexLine(line: Buffer): Promise<Upload | undefined> {
  const textAt = line.length > LONG_LINE_BYTES ? line.indexOf(TEXT_BEGIN) + TEXT_BEGIN.length : -1;
  const textEnd = line.lastIndexOf(TEXT_END);
  if (textAt < TEXT_BEGIN.length || textEnd < textAt) return parseIndexLine(line.toString());
  const upload = parseIndexLine(`${line.toString('utf8', 0, textAt)}${line.toString('utf8', textEnd)}`);
  const additionalData = await textOf(line);
  return upload && typeof additionalData === 'string' ? { ...upload, additionalData } : undefined;
}

async function textOf(line: Buffer): Promise<unknown> {
  const reader = new JsonReader(new Set(['additional_data']));
  const turns = new Turns();
  try {
    for (let at = 0; at < line.length; at += STEP_BYTES) {
      if (turns.isOver) await turns.next();
      reader.add(line.subarray(at, at + STEP_BYTES));
    }
    reader.end();
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
  return reader.members.get('additional_data');
}

/** The sha-256 (base64url) of an upload's `requestIdentity`. Yields to other work if `additional_data` is long. */
export function requestDigest(upload: Upload): string | Promise<string> {
  return hasLongText(upload) ? longRequestDigest(upload) : createHash('sha256').update(requestIdentity(upload)).digest('base64url');
}

async function longRequestDigest(upload: Upload): Promise<string> {
  const [before = '', after = ''] = requestIdentity({ ...upload, additionalData: PLACEHOLDER }).split(JSON.stringify(PLACEHOLDER));
  const hash = createHash('sha256').update(`${before}"`);
  await forEachPiece(upload.additionalData ?? '', (piece) => {
    hash.update(escaped(piece));
  });
  return hash.update(`"${after}`).digest('base64url');
}


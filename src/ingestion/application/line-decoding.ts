import { JsonReader } from '../../common/json-reader.js';
import { parseJson } from '../../common/text.js';
import { Turns } from '../../common/turns.js';
import { parseIndexLine, uploadFrom } from '../domain/layout.js';
import { isContentOf } from '../domain/layout-names.js';
import type { Upload } from '../domain/upload.js';
import { LineText } from './line-text.js';

/** TEXT_BEGIN and TEXT_END enclose the text of `additional_data` (unless null) in a line as the service writes it. */
const TEXT_BEGIN = '"additional_data":"';
const TEXT_END = '","received_at":"';
/** The length above which an index line is parsed in steps, between which other work runs. */
export const LONG_LINE_BYTES = 64 * 1024;
const STEP_BYTES = 16 * 1024;

/**
 * The upload that an index line describes; undefined if the line is invalid (see `parseIndexLine`). Someone may have
 * edited the line: `receivedAt` may be an invalid time. If `content_path` can't be that of the upload's file, the
 * result has no file, so that readers can't get at other files of the store. For a line of more than 64 KiB, returns a
 * promise, and yields to other work.
 */
export function decodeIndexLine(line: Buffer): Upload | undefined | Promise<Upload | undefined> {
  return line.length > LONG_LINE_BYTES ? decodeLong(line).then(withOwnContent) : decodeShortLine(line.toString());
}

/** Like `decodeIndexLine`, for the text of a line of at most 64 KiB. */
export const decodeShortLine = (line: string): Upload | undefined => withOwnContent(parseIndexLine(line));

function withOwnContent(upload: Upload | undefined): Upload | undefined {
  const path = upload?.content?.path;
  return upload && path !== undefined && !isContentOf(upload.uploadId, path) ? { ...upload, content: null } : upload;
}

async function decodeLong(line: Buffer): Promise<Upload | undefined> {
  const begin = line.subarray(0, LONG_LINE_BYTES);
  const end = line.subarray(-LONG_LINE_BYTES);
  const [textAt, textEnd] = [begin.indexOf(TEXT_BEGIN), end.lastIndexOf(TEXT_END)];
  const hasUsualForm = textAt >= 0 && textEnd >= 0 && line.length - end.length + textEnd >= textAt + TEXT_BEGIN.length;
  const upload = hasUsualForm
    ? parseIndexLine(`${begin.toString('utf8', 0, textAt + TEXT_BEGIN.length)}${end.toString('utf8', textEnd)}`)
    : uploadFrom(await abridgedLine(line));
  if (!upload || (!hasUsualForm && typeof upload.additionalData !== 'string')) return upload;
  const additionalData = (await membersOf(line, ['additional_data']))?.additional_data;
  return typeof additionalData === 'string' ? { ...upload, additionalData } : undefined;
}

export type LineMembers = Readonly<Record<string, unknown>>;

/**
 * Reads the members with the given names, and maybe others, from an index line; undefined if the line isn't a JSON
 * object in UTF-8 (in a line of up to 64 KiB, a list counts as one). For a line of more than 64 KiB, yields to other
 * work, and replaces values other than texts, nulls and lists of texts by a placeholder (`OTHER_VALUE`).
 */
export function membersOf(line: Buffer, names: readonly string[]): LineMembers | undefined | Promise<LineMembers | undefined> {
  if (line.length > LONG_LINE_BYTES) return membersOfLong(line, names);
  const value = parseJson(line);
  return typeof value === 'object' && value !== null ? (value as LineMembers) : undefined;
}

async function membersOfLong(line: Buffer, names: readonly string[]): Promise<LineMembers | undefined> {
  const reader = new JsonReader(new Set(names));
  try {
    await inSteps(line, (step) => { reader.add(step); });
    reader.end();
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
  return reader.isObject ? Object.fromEntries(reader.members) : undefined;
}

async function abridgedLine(line: Buffer): Promise<unknown> {
  const text = new LineText();
  await inSteps(line, (step) => { text.add(step); });
  return text.parse();
}

async function inSteps(line: Buffer, work: (step: Buffer) => void): Promise<void> {
  const turns = new Turns();
  for (let at = 0; at < line.length; at += STEP_BYTES) {
    if (turns.isOver) await turns.next();
    work(line.subarray(at, at + STEP_BYTES));
  }
}

import { JsonReader } from '../../common/json-reader.js';
import { Turns } from '../../common/turns.js';
import { parseIndexLine } from '../domain/layout.js';
import { isContentOf } from '../domain/layout-names.js';
import type { Upload } from '../domain/upload.js';
import { parseJson } from './line-text.js';

/** In an index line, TEXT_BEGIN is directly before the text of `additional_data`, and TEXT_END directly after it. */
const TEXT_BEGIN = '"additional_data":"';
const TEXT_END = '","received_at":"';
/** A line of more bytes than this is parsed in steps, between which other work runs. */
const LONG_LINE_BYTES = 64 * 1024;
const STEP_BYTES = 16 * 1024;

/**
 * The upload that an index line describes; undefined if the line isn't valid. The upload has no file if the line's
 * `content_path` isn't a path for the upload's file: someone may have edited the line, and readers must not get at
 * other files of the store. Yields to other work if the line is long.
 */
export async function decodeIndexLine(line: Buffer): Promise<Upload | undefined> {
  const upload = await decodeMembers(line);
  const path = upload?.content?.path;
  return upload && path !== undefined && !isContentOf(upload.uploadId, path) ? { ...upload, content: null } : upload;
}

async function decodeMembers(line: Buffer): Promise<Upload | undefined> {
  const textAt = line.length > LONG_LINE_BYTES ? line.indexOf(TEXT_BEGIN) + TEXT_BEGIN.length : -1;
  const textEnd = line.lastIndexOf(TEXT_END);
  if (textAt < TEXT_BEGIN.length || textEnd < textAt) return parseIndexLine(line.toString());
  const upload = parseIndexLine(`${line.toString('utf8', 0, textAt)}${line.toString('utf8', textEnd)}`);
  const additionalData = await memberOf(line, 'additional_data');
  return upload && typeof additionalData === 'string' ? { ...upload, additionalData } : undefined;
}

/**
 * The value of one member of a line; undefined if the line isn't a JSON object in UTF-8 with that member. Yields to
 * other work if the line is long.
 */
export async function memberOf(line: Buffer, name: string): Promise<unknown> {
  if (line.length <= LONG_LINE_BYTES) return (parseJson(line) as Readonly<Record<string, unknown>> | null | undefined)?.[name];
  const reader = new JsonReader(new Set([name]));
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
  return reader.members.get(name);
}

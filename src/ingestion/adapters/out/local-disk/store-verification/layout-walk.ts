import { lstat, opendir } from 'node:fs/promises';
import { join } from 'node:path';
import { encodePathSegment } from '../../../../domain/layout.js';
import { UPLOAD_KINDS } from '../../../../domain/upload.js';
import { hasCode } from '../disk-error.js';
import { isDate, UPLOAD_ID } from './line-rules.js';

/** A name beneath a directory of the store. */
export interface Entry {
  /** `unknown`: the layout has no such name, or not of this type. */
  readonly type: 'file' | 'unknown' | 'unreadable';
  /** Relative to the root. */
  readonly path: string;
  readonly name: string;
  /** Of an unreadable directory. */
  readonly error?: unknown;
}

type Rule = (name: string) => boolean;

const isKind: Rule = (name) => UPLOAD_KINDS.some((kind) => name === `kind=${kind}`);
const isDay: Rule = (name) => name.startsWith('date=') && isDate(name.slice(5));
const isSegment: Rule = (name) => /^[^.].*\.ndjson$/s.test(name);
const isContent: Rule = (name) => UPLOAD_ID.test(uploadIdOfFile(name)) && /^.{36}(\.[a-z0-9]{1,8})?$/.test(name);

const isCustomer: Rule = (name) => {
  const encoded = /^customer_id=((?:[A-Za-z0-9_.-]|%[0-9A-F]{2})+)$/.exec(name)?.[1];
  try {
    return encoded !== undefined && encodePathSegment(decodeURIComponent(encoded)) === encoded;
  } catch {
    return false;
  }
};

/** The upload's id, which a file's name begins with. */
export const uploadIdOfFile = (name: string): string => name.slice(0, 36);

/** The segments beneath uploads/, and what else is there. */
export const walkSegments = (root: string): AsyncGenerator<Entry> => walkTop(root, 'uploads', [isKind, isDay], isSegment);

/** The files beneath files/, and what else is there. */
export const walkContent = (root: string): AsyncGenerator<Entry> => walkTop(root, 'files', [isKind, isCustomer, isDay], isContent);

/** What is arriving. */
export const walkStaging = (root: string): AsyncGenerator<Entry> => walkTop(root, 'staging', [], () => true);

async function* walkTop(root: string, name: string, directories: readonly Rule[], isFile: Rule): AsyncGenerator<Entry> {
  const isDirectory = await lstat(join(root, name)).then((stats) => stats.isDirectory(), (error: unknown) => {
    if (hasCode(error, 'ENOENT')) return undefined;
    throw error;
  });
  if (isDirectory) yield* walk(root, name, directories, isFile);
  else if (isDirectory === false) yield { type: 'unknown', path: name, name };
}

/** One directory at a time and in no order, so that a million names need no memory. Follows no symbolic link. */
async function* walk(root: string, path: string, directories: readonly Rule[], isFile: Rule): AsyncGenerator<Entry> {
  const [isDirectory, ...beneath] = directories;
  try {
    for await (const entry of await opendir(join(root, path), { bufferSize: 1024 })) {
      const { name } = entry;
      const child = `${path}/${name}`;
      if (isDirectory && entry.isDirectory() && isDirectory(name)) yield* walk(root, child, beneath, isFile);
      else yield { type: !isDirectory && entry.isFile() && isFile(name) ? 'file' : 'unknown', path: child, name };
    }
  } catch (error) {
    // A directory that went since it was listed.
    if (!hasCode(error, 'ENOENT')) yield { type: 'unreadable', path, name: path, error };
  }
}

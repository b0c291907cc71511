import { utcDate } from './layout.js';
import { encodePathSegment, UPLOAD_KINDS } from './upload.js';

export const UPLOAD_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** Whether a text is a valid day, `YYYY-MM-DD`. */
export const isDate = (text: string): boolean =>
  /^\d{4}-\d\d-\d\d$/.test(text) && !Number.isNaN(Date.parse(text)) && utcDate(new Date(text)) === text;

const DAY_BEGIN = 'date=';

/** The day in the name of a directory, `date=YYYY-MM-DD`; undefined if the name has another form. */
export function dayIn(name: string): string | undefined {
  const day = name.slice(DAY_BEGIN.length);
  return name.startsWith(DAY_BEGIN) && isDate(day) ? day : undefined;
}

/** Whether a name, without the directories above it, is valid on one level of the layout. */
export type NameRule = (name: string) => boolean;

/**
 * Which names are valid below a top-level directory of the store. `directories` has a rule for each level, outermost
 * first.
 */
export interface LayoutRules {
  readonly top: string;
  readonly directories: readonly NameRule[];
  readonly isFile: NameRule;
}

const isKind: NameRule = (name) => UPLOAD_KINDS.some((kind) => name === `kind=${kind}`);
const isDay: NameRule = (name) => dayIn(name) !== undefined;
const isSegment: NameRule = (name) => /^[^.].*\.ndjson$/s.test(name);
const isContent: NameRule = (name) => UPLOAD_ID.test(uploadIdOfFile(name)) && /^.{36}(\.[a-z0-9]{1,8})?$/.test(name);

const isCustomer: NameRule = (name) => {
  const encoded = /^customer_id=((?:[A-Za-z0-9_.-]|%[0-9A-F]{2})+)$/.exec(name)?.[1];
  try {
    return encoded !== undefined && encodePathSegment(decodeURIComponent(encoded)) === encoded;
  } catch {
    return false;
  }
};

/** The id of an upload, from the name of its file. */
export const uploadIdOfFile = (name: string): string => name.slice(0, 36);

/** Whether the given rules allow a file at a path, relative to the store's root. */
export function isLayoutPath(path: string, { top, directories, isFile }: LayoutRules): boolean {
  const [first, ...names] = path.split('/');
  const file = names.pop();
  if (first !== top || file === undefined || names.length !== directories.length || path.includes('\0')) return false;
  return isFile(file) && directories.every((isDirectory, index) => isDirectory(names[index] ?? ''));
}

export const SEGMENTS: LayoutRules = { top: 'uploads', directories: [isKind, isDay], isFile: isSegment };
export const CONTENT: LayoutRules = { top: 'files', directories: [isKind, isCustomer, isDay], isFile: isContent };
export const STAGING: LayoutRules = { top: 'staging', directories: [], isFile: () => true };

/**
 * Directories in which `isContentOf` found a valid file. Checking a directory's path takes longer than parsing an index
 * line, and the files of many uploads are in the same directory.
 */
const contentDirectories = new Set<string>();
const MAX_DIRECTORIES = 1_000;

/** Whether the file of an upload may be at a path, relative to the store's root. */
export function isContentOf(uploadId: string, path: string): boolean {
  const nameAt = path.lastIndexOf('/') + 1;
  const name = path.slice(nameAt);
  if (uploadIdOfFile(name) !== uploadId) return false;
  const directory = path.slice(0, nameAt);
  if (contentDirectories.has(directory)) return isContent(name);
  if (!isLayoutPath(path, CONTENT)) return false;
  if (contentDirectories.size === MAX_DIRECTORIES) contentDirectories.clear();
  contentDirectories.add(directory);
  return true;
}

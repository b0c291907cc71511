import type { LayoutRules } from '../../../../domain/layout-names.js';
import type { SegmentEntry } from '../../../../application/store-verification/store-view.js';
import { type Bucket, type ListedObject, newKeys } from '../bucket.js';

export interface KeyEntry extends SegmentEntry {
  /**
   * Milliseconds since the object was written, by the store's clock. For an unknown directory: since its first listed
   * object was written.
   */
  readonly ageMs: number;
}

/**
 * Yields the objects below a directory of the layout, each once. Objects that the layout doesn't allow are yielded as
 * `unknown`; of all keys below an unknown directory, only that directory, with its `/`. Skips empty objects with names
 * of directories, which consoles and hierarchical namespaces create.
 *
 * @param directory the top of the layout or a directory of the layout below it, without a trailing `/`.
 */
export async function* walkKeys(bucket: Bucket, layout: LayoutRules, directory = layout.top): AsyncGenerator<KeyEntry> {
  let unknown: string | undefined;
  const isNew = newKeys();
  for await (const object of bucket.list(`${directory}/`)) {
    if (!isNew(object.key)) continue;
    if (unknown !== undefined && object.key.startsWith(unknown)) continue;
    const { entry, hidden } = entryOf(object, layout);
    if (entry) yield entry;
    unknown = hidden;
  }
}

/** `hidden` is the unknown directory that an object is in. An object with bytes and a known directory's key hides nothing. */
function entryOf({ key, size, ageMs }: ListedObject, { directories, isFile }: LayoutRules): { readonly entry?: KeyEntry; readonly hidden?: string } {
  const [top = '', ...names] = key.split('/');
  const last = names.length - 1;
  const name = names[last] ?? '';
  const wrong = names.findIndex((name, depth) => depth === last || !directories[depth]?.(name));
  if (wrong < last) {
    const path = `${[top, ...names.slice(0, wrong + 1)].join('/')}/`;
    return { entry: { type: 'unknown', path, name: names[wrong] ?? '', size, ageMs }, hidden: path };
  }
  if (last === directories.length && isFile(name) && name !== '') return { entry: { type: 'file', path: key, name, size, ageMs } };
  const isDirectory = name === '' || directories[last]?.(name) === true;
  return size === 0 && isDirectory ? {} : { entry: { type: 'unknown', path: key, name, size, ageMs } };
}

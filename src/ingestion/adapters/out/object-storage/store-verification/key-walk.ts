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
    const entry = entryOf(object, layout);
    if (entry) yield entry;
    // An object whose own key ends with `/` doesn't hide the keys below it.
    unknown = entry && entry.path !== object.key ? entry.path : undefined;
  }
}

function entryOf({ key, size, ageMs }: ListedObject, { directories, isFile }: LayoutRules): KeyEntry | undefined {
  const [top = '', ...names] = key.split('/');
  const last = names.length - 1;
  const name = names[last] ?? '';
  const wrong = names.findIndex((name, depth) => depth === last || !directories[depth]?.(name));
  if (wrong < last) {
    const path = `${[top, ...names.slice(0, wrong + 1)].join('/')}/`;
    return { type: 'unknown', path, name: names[wrong] ?? '', size, ageMs };
  }
  if (last === directories.length && isFile(name) && name !== '') return { type: 'file', path: key, name, size, ageMs };
  const isDirectory = name === '' || directories[last]?.(name) === true;
  return size === 0 && isDirectory ? undefined : { type: 'unknown', path: key, name, size, ageMs };
}

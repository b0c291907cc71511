import type { Bucket, ListedObject } from './bucket.js';

const REMOVED_AT_ONCE = 1_000;

export interface ListedRemovalOptions {
  readonly dryRun?: boolean;
}

/**
 * Removes the objects below a prefix for which `isObsolete` returns true. Throws errors of the bucket and of
 * `isObsolete`; some objects may then be removed already.
 *
 * @returns the number of objects that were removed; in a dry run, the number of those that would be.
 */
export async function removeListed(
  bucket: Bucket,
  prefix: string,
  isObsolete: (object: ListedObject) => boolean | Promise<boolean>,
  { dryRun = false }: ListedRemovalOptions = {},
): Promise<number> {
  let count = 0;
  const keys: string[] = [];
  const removeThem = async (): Promise<void> => {
    count += keys.length;
    const batch = keys.splice(0);
    if (!dryRun && batch.length > 0) await bucket.remove(batch);
  };
  for await (const object of bucket.list(prefix)) {
    if (await isObsolete(object)) keys.push(object.key);
    if (keys.length >= REMOVED_AT_ONCE) await removeThem();
  }
  await removeThem();
  return count;
}

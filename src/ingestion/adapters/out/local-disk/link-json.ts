import { hasCode } from '../../../../common/error-code.js';
import { parseJson } from '../../../../common/text.js';
import type { Disk } from './disk.js';
import { UNFINISHED_EXTENSION } from './whole-file.js';

/**
 * The JSON value that is the target of a symbolic link; undefined if there is no link, or its target isn't JSON.
 *
 * @param target the result of reading the link.
 */
export async function jsonOfLink(target: Promise<string>): Promise<unknown> {
  try {
    return parseJson(await target);
  } catch (error) {
    // EINVAL: the path isn't that of a link. ENOENT: the link was removed after its name was read, or the name on disk
    // isn't valid UTF-8, so that its decoded form names nothing. ENOTDIR: the directory of the link is a file.
    if (hasCode(error, 'EINVAL', 'ENOENT', 'ENOTDIR')) return undefined;
    throw error;
  }
}

/**
 * Replaces or creates a symbolic link whose target is JSON, atomically. Doesn't sync. A crash or an error may leave the
 * new link under an unfinished name, which the next call for the same path replaces.
 *
 * @param path absolute path of the link.
 */
export async function replaceLink(disk: Disk, path: string, value: object): Promise<void> {
  const unfinished = `${path}${UNFINISHED_EXTENSION}`;
  const link = (): Promise<void> => disk.link(JSON.stringify(value), unfinished);
  await link().catch(async (error: unknown) => {
    if (!hasCode(error, 'EEXIST')) throw error;
    await disk.remove(unfinished);
    await link();
  });
  await disk.rename(unfinished, path);
}

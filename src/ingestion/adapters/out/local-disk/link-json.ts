import { parseJson } from '../../../../common/text.js';
import { hasCode } from './disk-error.js';

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

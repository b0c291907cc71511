import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { DataDirectoryError } from '../../../../common/data-directory/data-directory-error.js';
import { privateDirectory, readOrCreate } from './private-files.js';

/** At least 16 visible ASCII characters: all clients encode them correctly, and 16 random ones can't be guessed. */
export const ADMIN_SECRET = /^[\x21-\x7e]{16,}$/;

/**
 * The secret of the client `admin`, in `DATA_DIR/identity/admin-secret`. A missing file is created with a random
 * secret.
 *
 * @throws DataDirectoryError when the file is anything but a regular file with one line of at least 16 visible ASCII
 * characters; errors of the file system.
 */
export async function loadAdminSecret(dataDirectory: string): Promise<string> {
  const path = join(privateDirectory(dataDirectory), 'admin-secret');
  const text = await readOrCreate(path, () => `${randomBytes(32).toString('base64url')}\n`);
  const secret = text.trimEnd();
  if (!ADMIN_SECRET.test(secret)) {
    throw new DataDirectoryError(`${path} must be one line of at least 16 visible ASCII characters. Put the secret back, or remove the file to get a new one.`);
  }
  return secret;
}

import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { DataDirectoryError } from '../../../../data-directory/data-directory-error.js';
import { privateDirectory, readOrCreate } from './private-files.js';

/**
 * The secret of the client `admin`, one line in `DATA_DIR/identity/admin-secret`, made at the first boot of 32 random
 * bytes.
 *
 * @throws DataDirectoryError when the file doesn't hold visible ASCII characters in one line.
 */
export async function loadAdminSecret(dataDirectory: string): Promise<string> {
  const path = join(privateDirectory(dataDirectory), 'admin-secret');
  const text = await readOrCreate(path, () => `${randomBytes(32).toString('base64url')}\n`);
  const secret = text.trimEnd();
  if (!/^[\x21-\x7e]+$/.test(secret)) throw new DataDirectoryError(`${path} must hold visible ASCII characters in one line. Put the secret back, or remove the file to get a new one.`);
  return secret;
}

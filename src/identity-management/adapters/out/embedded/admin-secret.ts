import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { privateDirectory, readOrCreate } from './private-files.js';

/**
 * The secret of the client `admin`, one line in `DATA_DIR/identity/admin-secret`, made at the first boot of 32 random
 * bytes.
 *
 * @throws Error when the file doesn't hold visible ASCII characters in one line.
 */
export async function loadAdminSecret(dataDirectory: string): Promise<string> {
  const path = join(privateDirectory(dataDirectory), 'admin-secret');
  const text = await readOrCreate(path, () => `${randomBytes(32).toString('base64url')}\n`);
  const secret = text.trimEnd();
  if (!/^[\x21-\x7e]+$/.test(secret)) throw new Error(`${path} must hold visible ASCII characters in one line.`);
  return secret;
}

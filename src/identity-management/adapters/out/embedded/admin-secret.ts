import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { DataDirectoryError } from '../../../../common/data-directory/data-directory-error.js';
import { privateDirectory, readOrCreate } from './private-files.js';
import { type AvailableStore, RenewedFile } from './renewed-file.js';

/**
 * The secret of the client `admin`, or two separated by a blank while one is replaced. Each has at least 16 visible ASCII
 * characters: all clients encode them correctly, and 16 random ones can't be guessed.
 */
export const ADMIN_SECRET = /^[\x21-\x7e]{16,}(?: [\x21-\x7e]{16,})?$/;
/** What a value that doesn't match ADMIN_SECRET must be. */
export const ADMIN_SECRET_RULE = 'at least 16 visible ASCII characters, or two such secrets separated by a blank';

/** @throws Error when the secret doesn't match ADMIN_SECRET. The message doesn't show the secret. */
export function assertAdminSecret(secret: string): void {
  if (!ADMIN_SECRET.test(secret)) throw new Error(`The secret of the client admin must be ${ADMIN_SECRET_RULE}.`);
}

/** The secret of a running service, which is read again when its file has been replaced. */
export const renewedAdminSecret = (dataDirectory: string, store: AvailableStore): Promise<RenewedFile<string>> =>
  RenewedFile.open(pathIn(dataDirectory), 'The secret of admin from before stays in use.', (isFirst) => loadAdminSecret(dataDirectory, { create: isFirst }), store);

const pathIn = (dataDirectory: string): string => join(dataDirectory, 'identity', 'admin-secret');

/**
 * The line in `DATA_DIR/identity/admin-secret`, with one or two secrets (ADMIN_SECRET). A missing file is created with a
 * random one.
 *
 * @param create must be false while the service runs, because a new secret would make its clients fail.
 * @throws DataDirectoryError when the file is missing and `create` is false, or is anything but a regular file with such
 * a line; errors of the file system.
 */
export async function loadAdminSecret(dataDirectory: string, { create = true } = {}): Promise<string> {
  if (create) privateDirectory(dataDirectory);
  const path = pathIn(dataDirectory);
  const text = await readOrCreate(path, () => {
    if (!create) throw new DataDirectoryError(`${path} is gone while the service runs: put it back; a restart makes a new secret`);
    return `${randomBytes(32).toString('base64url')}\n`;
  });
  const secret = text.trimEnd();
  if (!ADMIN_SECRET.test(secret)) {
    const remedy = create ? 'Put the secret back, or remove the file to get a new one.' : 'Put the secret back.';
    throw new DataDirectoryError(`${path} must be one line of ${ADMIN_SECRET_RULE}. ${remedy}`);
  }
  return secret;
}

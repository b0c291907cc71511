import { StoreVerification, type VerificationOptions } from '../../../../application/store-verification/store-verification.js';
import { openDirectory } from './directory-view.js';

export type { Finding, FindingKind } from '../../../../application/store-verification/finding.js';
export { NoStoreError } from '../../../../application/store-verification/store-view.js';

/**
 * Verifies the store in a DATA_DIR. A service may be running on it at the same time.
 *
 * @param directory the path of the DATA_DIR, which may be a symbolic link.
 * @returns the findings; iterating them rejects with NoStoreError if the directory contains no store.
 */
export const verifyStore = (directory: string, options: VerificationOptions = {}): StoreVerification =>
  new StoreVerification(() => openDirectory(directory), options);

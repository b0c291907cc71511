import { ServiceError } from '../../common/service-error.js';
import type { FileStorage } from './ports/file-storage.port.js';
import type { StoredUploads } from './ports/stored-uploads.port.js';

/**
 * Returns `FileStorage.storedUploads`: the port by which the uploads of a store are found, listed and removed.
 *
 * @throws ServiceError `not-found` if the adapter of the store has no such port.
 */
export function storedUploadsOf({ storedUploads }: FileStorage): StoredUploads {
  if (!storedUploads) throw new ServiceError('not-found', "The store doesn't offer its uploads.");
  return storedUploads;
}

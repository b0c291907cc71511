import { ServiceError } from '../../common/service-error.js';
import type { FileStorage } from './ports/file-storage.port.js';
import type { StoredUploads } from './ports/stored-uploads.port.js';

/**
 * Returns the port by which the uploads of a store are found, listed and removed.
 *
 * @throws ServiceError `not-found` if the store doesn't offer it.
 */
export function storedUploadsOf({ storedUploads }: FileStorage): StoredUploads {
  if (!storedUploads) throw new ServiceError('not-found', "The store doesn't offer its uploads.");
  return storedUploads;
}

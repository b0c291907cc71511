import { ServiceError } from '../../common/service-error.js';
import type { FileStorage } from './ports/file-storage.port.js';
import type { StoredUploads } from './ports/stored-uploads.port.js';

/**
 * The port of a store that finds, lists and removes its uploads.
 *
 * @throws ServiceError `not-found` if the store doesn't offer that port.
 */
export function storedUploadsOf({ storedUploads }: FileStorage): StoredUploads {
  if (!storedUploads) throw new ServiceError('not-found', "The store doesn't offer its uploads.");
  return storedUploads;
}

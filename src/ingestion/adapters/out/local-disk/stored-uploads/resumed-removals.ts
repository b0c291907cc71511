import type { CustomerAccess } from '../../../../application/ports/stored-uploads.port.js';
import type { RemovalList, RemovedUpload } from './removal-list.js';

export interface ResumedRemovals {
  readonly completed: readonly RemovalList[];
  /** Removals that failed again. `list` is undefined if the removal list could not be read. */
  readonly failed: readonly { readonly list: RemovalList | undefined; readonly error: unknown }[];
}

/**
 * Whether a resumed removal has removed an upload whose customer the caller may access. An upload whose list names no
 * customer doesn't count.
 *
 * @throws the error of that removal, if it has failed again.
 */
export function isCompleted({ completed, failed }: ResumedRemovals, uploadId: string, mayAccess: CustomerAccess): boolean {
  const isWanted = (upload: RemovedUpload): boolean => upload.uploadId === uploadId && upload.customerId !== undefined && mayAccess(upload.customerId);
  for (const { list, error } of failed) if (list?.uploads.some(isWanted)) throw error;
  return completed.some(({ uploads }) => uploads.some(isWanted));
}

/** Whether a removal list may have uploads of a customer. True if no customer is given, or the list wasn't read. */
export const mayHaveUploadsOf = (list: RemovalList | undefined, customerId: string | undefined): boolean =>
  !list || customerId === undefined || list.uploads.some((upload) => upload.customerId === undefined || upload.customerId === customerId);

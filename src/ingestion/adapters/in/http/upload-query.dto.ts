import type { IncomingMessage } from 'node:http';
import { RawQuery } from '../../../../http/raw-query.js';
import { isCustomerId, isFilename, isManufacturer } from '../../../domain/upload.js';
import { Satisfies, validQuery } from './query-rules.js';

/** The query parameters of an upload (service interface, part 2). */
export class UploadQueryDto {
  @Satisfies('isCustomerId', isCustomerId)
  readonly customer_id!: string;

  @Satisfies('isFilename', isFilename)
  readonly filename!: string;

  @Satisfies('isManufacturer', isManufacturer)
  readonly manufacturer!: string;
}

/**
 * Reads the three parameters from the URL as it was sent. The framework's parsed query would hide defects that must be
 * refused, such as repeated parameters.
 *
 * @throws ServiceError `invalid-query-parameter` if a parameter is missing, repeated or invalid.
 */
export function readUploadQuery(request: IncomingMessage): UploadQueryDto {
  const raw = new RawQuery(request);
  return validQuery(
    Object.assign(new UploadQueryDto(), {
      customer_id: raw.single('customer_id'),
      filename: raw.single('filename'),
      manufacturer: raw.single('manufacturer'),
    }),
  );
}

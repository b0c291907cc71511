import { ValidateBy } from 'class-validator';
import { isCustomerId, isFilename, isManufacturer } from '../../../domain/upload.js';

const Satisfies = (name: string, validate: (value: unknown) => boolean): PropertyDecorator =>
  ValidateBy({ name, validator: { validate } });

/** The query parameters of an upload (service interface, part 2). */
export class UploadQueryDto {
  @Satisfies('isCustomerId', isCustomerId)
  readonly customer_id!: string;

  @Satisfies('isFilename', isFilename)
  readonly filename!: string;

  @Satisfies('isManufacturer', isManufacturer)
  readonly manufacturer!: string;
}

import type { IncomingMessage } from 'node:http';
import { Injectable, type PipeTransform } from '@nestjs/common';
import { validateSync } from 'class-validator';
import { ServiceError } from '../../../../common/service-error.js';
import { RawQuery } from '../../../../http/raw-query.js';
import { RequestParam } from '../../../../http/request-param.js';
import { UploadQueryDto } from './upload-query.dto.js';

/** Reads the three parameters from the URL as it was sent. An earlier parser would hide what must be refused. */
@Injectable()
export class UploadQueryPipe implements PipeTransform<IncomingMessage, UploadQueryDto> {
  /** @throws ServiceError `invalid-query-parameter` if one of them is missing, repeated or invalid. */
  transform(request: IncomingMessage): UploadQueryDto {
    const raw = new RawQuery(request);
    const query = Object.assign(new UploadQueryDto(), {
      customer_id: raw.single('customer_id'),
      filename: raw.single('filename'),
      manufacturer: raw.single('manufacturer'),
    });
    const defects = validateSync(query);
    if (defects.length > 0) {
      throw new ServiceError('invalid-query-parameter', defects.map(({ property }) => property).join(', '));
    }
    return query;
  }
}

/** Injects the validated query parameters of an upload. */
export const UploadQuery = (): ParameterDecorator => RequestParam(UploadQueryPipe);

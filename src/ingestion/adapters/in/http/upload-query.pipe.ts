import type { IncomingMessage } from 'node:http';
import { Injectable, type PipeTransform } from '@nestjs/common';
import { validateSync } from 'class-validator';
import { ServiceError } from '../../../../common/service-error.js';
import { RawQuery } from '../../../../http/raw-query.js';
import { RequestParam } from '../../../../http/request-param.js';
import { UploadQueryDto } from './upload-query.dto.js';

/** Reads the three parameters from the URL as it was sent: a parser in front would hide what must be refused. */
@Injectable()
export class UploadQueryPipe implements PipeTransform<IncomingMessage, UploadQueryDto> {
  /** @throws ServiceError `invalid-query-parameter` when one is absent, repeated, or breaks its rule. */
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

/** The validated query parameters of an upload. */
export const UploadQuery = (): ParameterDecorator => RequestParam(UploadQueryPipe);

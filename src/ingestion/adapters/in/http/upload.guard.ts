import type { IncomingMessage } from 'node:http';
import { type CanActivate, type ExecutionContext, Injectable, type Type, mixin } from '@nestjs/common';
import { ServiceError } from '../../../../common/service-error.js';
import { RawQuery } from '../../../../http/raw-query.js';
import type { UploadKind } from '../../../domain/upload.js';
import { UploadAuthorization, UploadLimits } from '../../../ingestion.options.js';
import { assertUploadContent } from './upload-content.js';

/**
 * Decides by the headers and the query alone, before the body is read. First checks who may upload what for whom (403,
 * 503), then refuses requests that are too long (413) or of an unsupported type (415).
 */
export function UploadGuard(kind: UploadKind): Type<CanActivate> {
  @Injectable()
  class KindUploadGuard implements CanActivate {
    constructor(
      private readonly authorization: UploadAuthorization,
      private readonly limits: UploadLimits,
    ) {}

    async canActivate(context: ExecutionContext): Promise<boolean> {
      const request = context.switchToHttp().getRequest<IncomingMessage>();
      await this.authorize(request);
      assertUploadContent(request, this.limits);
      return true;
    }

    private async authorize(request: IncomingMessage): Promise<void> {
      const token = await this.authorization.accessTokens?.verify(request);
      if (!token) return;
      const customer = new RawQuery(request).single('customer_id');
      const covered = token.customerIds.has('*') || (customer !== undefined && token.customerIds.has(customer));
      if (!token.permissions.has(`upload:${kind}`) || !covered) throw new ServiceError('unauthorized');
    }
  }
  return mixin(KindUploadGuard);
}

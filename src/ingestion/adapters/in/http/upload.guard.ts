import type { IncomingMessage } from 'node:http';
import { type CanActivate, type ExecutionContext, Injectable, type Type, mixin } from '@nestjs/common';
import { type AccessTokenVerifier, coversCustomer } from '../../../../authentication/access-token.js';
import { ServiceError } from '../../../../common/service-error.js';
import { RawQuery } from '../../../../http/query.js';
import type { UploadKind } from '../../../domain/upload.js';
import { UploadAuthorization } from '../../../ingestion.options.js';

/**
 * A guard that refuses a request (403) unless its access token permits uploads of this kind for the request's customer.
 * Answers 503 if the token can't be checked. Lets every request through if no tokens are required. Runs before anything
 * else of the request is examined.
 */
export function UploadGuard(kind: UploadKind): Type<CanActivate> {
  @Injectable()
  class KindUploadGuard implements CanActivate {
    constructor(private readonly authorization: UploadAuthorization) {}

    canActivate(context: ExecutionContext): boolean | Promise<boolean> {
      const { accessTokens } = this.authorization;
      return accessTokens === undefined || mayUpload(accessTokens, context.switchToHttp().getRequest<IncomingMessage>());
    }
  }

  async function mayUpload(accessTokens: AccessTokenVerifier, request: IncomingMessage): Promise<boolean> {
    const { permissions, customerIds } = await accessTokens.verify(request);
    const isCovered = coversCustomer(customerIds, new RawQuery(request).single('customer_id'));
    if (!permissions.has(`upload:${kind}`)) throw new ServiceError('unauthorized', `The token lacks upload:${kind}.`);
    if (!isCovered) throw new ServiceError('unauthorized', 'The customer_id claim of the token does not cover the customer.');
    return true;
  }

  return mixin(KindUploadGuard);
}

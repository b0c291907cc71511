import type { IncomingMessage } from 'node:http';
import { type CanActivate, type ExecutionContext, Injectable } from '@nestjs/common';
import { ServiceError } from '../../../../common/service-error.js';
import { assertDeclaredJsonLength, assertJsonCoding } from '../../../../http/admission.js';
import { hasBody } from '../../../../http/exchange.js';
import { mediaType } from '../../../../http/media-type.js';
import { JsonLimits } from '../../../identity-management.options.js';

/**
 * Refuses a body that is too long (413) or not JSON (415), judging only by the headers. Runs after the permission
 * guard.
 */
@Injectable()
export class JsonContentGuard implements CanActivate {
  constructor(private readonly limits: JsonLimits) {}

  canActivate(context: ExecutionContext): boolean {
    const request = context.switchToHttp().getRequest<IncomingMessage>();
    assertDeclaredJsonLength(request, this.limits.maxJsonBytes);
    const type = mediaType(request);
    const absent = type === '' && !hasBody(request);
    if (type !== 'application/json' && !absent) throw new ServiceError('unsupported-media-type');
    assertJsonCoding(request);
    return true;
  }
}

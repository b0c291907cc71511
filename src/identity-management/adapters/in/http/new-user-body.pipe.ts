import type { IncomingMessage } from 'node:http';
import { Injectable } from '@nestjs/common';
import { assertPermission } from '../../../../authentication/permission.guard.js';
import { RequestParam } from '../../../../http/request-param.js';
import { JsonBodyPipe } from './json-body.pipe.js';

/**
 * The body of `POST /create-user`. A new user with roles also requires the permission to assign roles. A `roles` member
 * that isn't an array requires that permission too, unless it is null.
 */
@Injectable()
export class NewUserBodyPipe extends JsonBodyPipe {
  protected override assertPermitted(request: IncomingMessage, { roles }: Readonly<Record<string, unknown>>): void {
    const isNone = roles === undefined || roles === null || (Array.isArray(roles) && roles.length === 0);
    if (!isNone) assertPermission(request, 'assign:roles');
  }
}

/** The validated JSON body of a request to create a user. */
export const NewUserBody = (): ParameterDecorator => RequestParam(NewUserBodyPipe);

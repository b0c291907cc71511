import type { IncomingMessage } from 'node:http';
import { createParamDecorator, type ExecutionContext } from '@nestjs/common';

/** Injects the request itself, for pipes that read a parameter from it. */
export const RequestParam = createParamDecorator((_: unknown, context: ExecutionContext) =>
  context.switchToHttp().getRequest<IncomingMessage>(),
);

import { applyDecorators, type Type } from '@nestjs/common';
import { ApiExtraModels, ApiResponse, getSchemaPath } from '@nestjs/swagger';
import { SuccessBody } from './api-bodies.js';

export const REQUEST_ID_HEADER = {
  'X-Request-Id': {
    description: "The request's id, which the log has too: the client's own, if it is one",
    schema: { type: 'string' as const },
  },
};

interface Answer {
  readonly body: Type;
  readonly example?: object;
  /** Response headers in addition to `X-Request-Id`. */
  readonly headers?: Readonly<Record<string, object>>;
}

/** Documents a JSON answer of an operation in the OpenAPI document. */
export const ApiAnswer = (status: number, description: string, { body, example, headers }: Answer): MethodDecorator =>
  applyDecorators(
    ApiExtraModels(body),
    ApiResponse({
      status,
      description,
      headers: { ...REQUEST_ID_HEADER, ...headers },
      content: { 'application/json': { schema: { $ref: getSchemaPath(body) }, ...(example && { example }) } },
    }),
  );

/**
 * Documents the JSON answer to a successful command: `{status: "success", <ids>, message}`. `ids` has example ids, each
 * under the name of its member, such as `role_id`.
 */
export const ApiSuccess = (
  status: 200 | 201,
  message: string,
  { body = SuccessBody, ids, headers }: { body?: Type; ids?: Readonly<Record<string, string>>; headers?: Answer['headers'] } = {},
): MethodDecorator => ApiAnswer(status, message, { body, example: { status: 'success', ...ids, message }, ...(headers && { headers }) });

import { applyDecorators } from '@nestjs/common';
import { ApiExtraModels, ApiResponse, type ApiResponseOptions, getSchemaPath } from '@nestjs/swagger';
import type { ErrorKind } from '../common/service-error.js';
import { REQUEST_ID_HEADER } from './api-answer.decorator.js';
import { ErrorBody } from './api-bodies.js';
import { ERROR_TABLE } from './error-table.js';

const OF_EVERY_OPERATION = ['bad-request', 'request-timeout', 'too-many-requests', 'header-fields-too-large', 'internal'] as const;

const RETRY_AFTER_HEADER = {
  'Retry-After': { description: 'Seconds after which a repeat makes sense', schema: { type: 'integer' as const } },
};

const LENGTH_HEADER = {
  'Content-Range': { description: '`bytes */` and the length of the file', schema: { type: 'string' as const } },
};

/** Documents the error answers of an operation in the OpenAPI document: the given kinds, and those of any operation. */
export function ApiErrors(...kinds: ErrorKind[]): MethodDecorator & ClassDecorator {
  const textsByStatus = new Map<number, Set<string>>();
  for (const kind of [...kinds, ...OF_EVERY_OPERATION]) {
    const { status, text } = ERROR_TABLE[kind];
    textsByStatus.set(status, (textsByStatus.get(status) ?? new Set<string>()).add(text));
  }
  return applyDecorators(ApiExtraModels(ErrorBody), ...[...textsByStatus].map(([status, texts]) => ApiResponse(errorResponse(status, [...texts]))));
}

function errorResponse(status: number, texts: string[]): ApiResponseOptions {
  return {
    status,
    description: texts.join(' / '),
    headers: { ...REQUEST_ID_HEADER, ...([409, 429, 503].includes(status) ? RETRY_AFTER_HEADER : {}), ...(status === 416 ? LENGTH_HEADER : {}) },
    content: {
      'application/json': {
        schema: { $ref: getSchemaPath(ErrorBody) },
        examples: Object.fromEntries(texts.map((error) => [error, { value: { error } }])),
      },
    },
  };
}

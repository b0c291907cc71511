import { ApiResponse } from '@nestjs/swagger';
import { REQUEST_ID_HEADER } from './api-errors.decorator.js';

/** Documents the answer `{<member>: [{<fields>}]}` with status 200. The value of every field is a string. */
export function ApiList(member: string, fields: readonly string[]): MethodDecorator & ClassDecorator {
  const item = {
    type: 'object',
    required: [...fields],
    properties: Object.fromEntries(fields.map((field) => [field, { type: 'string' }])),
  };
  return ApiResponse({
    status: 200,
    description: `All ${member}`,
    headers: REQUEST_ID_HEADER,
    schema: { type: 'object', required: [member], properties: { [member]: { type: 'array', items: item } } },
  });
}

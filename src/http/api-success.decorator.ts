import { ApiResponse } from '@nestjs/swagger';
import { REQUEST_ID_HEADER } from './api-errors.decorator.js';

/** Documents the answer `{status: "success", <id name>: <id>, message}`. The id is optional. The message is exact. */
export function ApiSuccess(
  status: 200 | 201,
  message: string,
  more: { id?: { name: string; example: string }; headers?: Record<string, object> } = {},
): MethodDecorator & ClassDecorator {
  const id = more.id ? { [more.id.name]: { type: 'string', example: more.id.example } } : {};
  return ApiResponse({
    status,
    description: message,
    headers: { ...REQUEST_ID_HEADER, ...more.headers },
    schema: {
      type: 'object',
      required: ['status', ...Object.keys(id), 'message'],
      properties: { status: { type: 'string', enum: ['success'] }, ...id, message: { type: 'string', enum: [message] } },
    },
  });
}

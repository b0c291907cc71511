import type { ServerResponse } from 'node:http';

/**
 * Sends the answer of an operation, with the status of `@HttpCode`. Written past Nest, because an interceptor of the
 * application could change what a handler returns.
 */
export function sendJson(response: ServerResponse, body: object): void {
  const json = JSON.stringify(body);
  response.writeHead(response.statusCode, {
    'Content-Type': 'application/json; charset=utf-8',
    'Content-Length': Buffer.byteLength(json),
  });
  response.end(json);
}

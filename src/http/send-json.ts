import type { ServerResponse } from 'node:http';

/**
 * Sends the answer of an operation, with the status of `@HttpCode`. Written past Nest, because an interceptor of the
 * application could change what a handler returns.
 */
export function sendJson(response: ServerResponse, body: object): void {
  sendJsonText(response, JSON.stringify(body));
}

/** Like `sendJson`, for an answer that is JSON already. */
export function sendJsonText(response: ServerResponse, json: string | Buffer): void {
  response.writeHead(response.statusCode, {
    'Content-Type': 'application/json; charset=utf-8',
    'Content-Length': Buffer.byteLength(json),
  });
  response.end(json);
}

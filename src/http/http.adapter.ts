import { createServer, IncomingMessage, ServerResponse } from 'node:http';
import type { NestApplicationOptions } from '@nestjs/common';
import { ExpressAdapter } from '@nestjs/platform-express';
import express, { type Express, type Response } from 'express';

/** Express configured for this interface: exact paths, no extra headers, and minimal query parsing. */
export class HttpAdapter extends ExpressAdapter {
  constructor() {
    const instance = express();
    instance.enable('case sensitive routing').enable('strict routing').disable('x-powered-by').disable('etag');
    instance.set('query parser', 'simple');
    super(instance);
  }

  /**
   * Makes Node create its requests and responses as Express objects. Otherwise Express would change the prototype of
   * each of these objects, and all code that handles them would run several times slower.
   */
  override initHttpServer({ httpsOptions }: NestApplicationOptions): void {
    if (httpsOptions) throw new Error('TLS is left to a proxy.');
    const instance = this.getInstance<Express>();
    class ExpressRequest extends IncomingMessage {}
    class ExpressResponse extends ServerResponse<ExpressRequest> {}
    instance.request = Object.setPrototypeOf(ExpressRequest.prototype, instance.request) as Express['request'];
    instance.response = Object.setPrototypeOf(ExpressResponse.prototype, instance.response) as Express['response'];
    this.setHttpServer(createServer({ IncomingMessage: ExpressRequest, ServerResponse: ExpressResponse }, instance));
  }

  /**
   * Sends what a handler returned. A plain object with status 200 or 201 is sent as JSON without Express, which would
   * first consult its settings and parse the header that it has just written.
   */
  override reply(response: Response, body: unknown, status?: number): unknown {
    const json = isPlainObject(body) && !response.hasHeader('Content-Type') ? toJson(body) : undefined;
    const statusCode = status ?? response.statusCode;
    if (json === undefined || !WITH_BODY.includes(statusCode)) return super.reply(response, body, status) as unknown;
    response.writeHead(statusCode, {
      'Content-Type': 'application/json; charset=utf-8',
      'Content-Length': Buffer.byteLength(json),
    });
    return response.end(json);
  }
}

/** The statuses of the operations' successful answers. Other statuses may forbid a body. */
const WITH_BODY: readonly number[] = [200, 201];

/** An object as JSON; undefined if the object's `toJSON` returns undefined. */
const toJson: (value: object) => string | undefined = JSON.stringify;

const isPlainObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;

import { createServer, IncomingMessage, ServerResponse } from 'node:http';
import type { NestApplicationOptions } from '@nestjs/common';
import { ExpressAdapter } from '@nestjs/platform-express';
import express, { type Express } from 'express';
import { layersOf } from './route-table.js';

/** The buffer of a request is small, so that Node stops after one socket read (64 KiB) of about 10,000 short chunks. */
const HIGH_WATER_MARK = 4 * 1024;

/** Express configured for the service interface: for example, paths match exactly (case and trailing slash). */
export class HttpAdapter extends ExpressAdapter {
  constructor() {
    const instance = express();
    instance.enable('case sensitive routing').enable('strict routing').disable('x-powered-by').disable('etag');
    instance.set('query parser', 'simple');
    super(instance);
    // Nest's first middleware calls hooks that only its development tools set. Without it, routes can be called directly.
    layersOf(instance).length = 0;
  }

  /**
   * Makes Node create its requests and responses as Express objects. Otherwise Express would change the prototype of
   * each, and code that handles them would run several times slower.
   *
   * @throws Error when the option `httpsOptions` is set.
   */
  override initHttpServer({ httpsOptions }: NestApplicationOptions): void {
    if (httpsOptions) throw new Error('HTTPS is not supported: let a proxy terminate TLS.');
    const instance = this.getInstance<Express>();
    class ExpressRequest extends IncomingMessage {}
    class ExpressResponse extends ServerResponse<ExpressRequest> {}
    instance.request = Object.setPrototypeOf(ExpressRequest.prototype, instance.request) as Express['request'];
    instance.response = Object.setPrototypeOf(ExpressResponse.prototype, instance.response) as Express['response'];
    this.setHttpServer(createServer({ IncomingMessage: ExpressRequest, ServerResponse: ExpressResponse, highWaterMark: HIGH_WATER_MARK }, instance));
  }
}

import { createServer, IncomingMessage, ServerResponse } from 'node:http';
import type { NestApplicationOptions } from '@nestjs/common';
import { ExpressAdapter } from '@nestjs/platform-express';
import express, { type Express } from 'express';
import { addAnswerHeaders } from './exchange.js';
import { dispatcher } from './http-edge.js';
import { type DirectRoute, type ExpressLayer, layersOf } from './route-table.js';

/** The buffer of a request is small, so that Node stops after one socket read (64 KiB) of about 10,000 short chunks. */
const HIGH_WATER_MARK = 4 * 1024;

/** Express configured for the service interface: for example, paths match exactly (case and trailing slash). */
export class HttpAdapter extends ExpressAdapter {
  private readonly directRoutes = new Map<string, DirectRoute>();
  /** Nest's middleware that calls the two hooks below. It's added with the first hook, because no route is direct behind it. */
  private readonly hookCaller: ExpressLayer[];

  constructor() {
    const instance = express();
    instance.enable('case sensitive routing').enable('strict routing').disable('x-powered-by').disable('etag');
    instance.set('query parser', 'simple');
    super(instance);
    this.hookCaller = layersOf(instance).splice(0);
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
    addAnswerHeaders(ExpressResponse.prototype);
    const options = { IncomingMessage: ExpressRequest, ServerResponse: ExpressResponse, highWaterMark: HIGH_WATER_MARK };
    this.setHttpServer(createServer(options, dispatcher(instance, this.directRoutes)));
  }

  /** Makes requests for these routes skip Express's router. Must be called after all routes were registered. */
  useDirectRoutes(routes: ReadonlyMap<string, DirectRoute>): void {
    for (const [name, route] of routes) this.directRoutes.set(name, route);
  }

  override setOnRequestHook(hook: Parameters<ExpressAdapter['setOnRequestHook']>[0]): void {
    this.addHookCaller();
    super.setOnRequestHook(hook);
  }

  override setOnResponseHook(hook: Parameters<ExpressAdapter['setOnResponseHook']>[0]): void {
    this.addHookCaller();
    super.setOnResponseHook(hook);
  }

  private addHookCaller(): void {
    this.directRoutes.clear();
    layersOf(this.getInstance()).unshift(...this.hookCaller.splice(0));
  }
}

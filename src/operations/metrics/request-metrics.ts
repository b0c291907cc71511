import type { Server } from 'node:http';
import { Injectable, type OnApplicationBootstrap } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import type { Request } from 'express';
import { type Exchange, EXCHANGE_END } from '../../http/exchange.js';
import { Metrics } from './metrics.js';

/**
 * Counts answered requests by method, route and status, and measures how long they take by method and route. The route
 * is `unmatched` for a request that matches none.
 */
@Injectable()
export class RequestMetrics implements OnApplicationBootstrap {
  constructor(
    private readonly host: HttpAdapterHost,
    private readonly metrics: Metrics,
  ) {}

  onApplicationBootstrap(): void {
    const server = this.host.httpAdapter.getHttpServer() as Server;
    server.on(EXCHANGE_END, ({ request, response, startedAt }: Exchange) => {
      if (!response.writableFinished) return;
      const route = ((request as Request).route as { path?: string } | undefined)?.path ?? 'unmatched';
      this.metrics.requests.add(request.method ?? '', route, response.statusCode, (performance.now() - startedAt) / 1000);
    });
  }
}

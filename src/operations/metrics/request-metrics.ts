import type { Server, ServerResponse } from 'node:http';
import { Injectable, type OnApplicationBootstrap } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import type { Request } from 'express';
import { Metrics } from './metrics.js';

/** Counts requests by method, route and status. Requests that match no route count as `unmatched`. */
@Injectable()
export class RequestMetrics implements OnApplicationBootstrap {
  constructor(
    private readonly host: HttpAdapterHost,
    private readonly metrics: Metrics,
  ) {}

  onApplicationBootstrap(): void {
    const server = this.host.httpAdapter.getHttpServer() as Server;
    const observe = (request: Request, response: ServerResponse): void => {
      const begin = performance.now();
      response.once('finish', () => {
        const { method } = request;
        const route = (request.route as { path?: string } | undefined)?.path ?? 'unmatched';
        this.metrics.requests.inc({ method, route, status: response.statusCode });
        this.metrics.requestSeconds.observe({ method, route }, (performance.now() - begin) / 1000);
      });
    };
    for (const event of ['request', 'checkContinue', 'checkExpectation']) server.prependListener(event, observe);
  }
}

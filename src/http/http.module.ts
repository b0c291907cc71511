import type { IncomingMessage, Server } from 'node:http';
import { Inject, Module, type OnApplicationBootstrap, type OnModuleInit, Optional } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import type { ErrorRequestHandler, Express, Request, Response } from 'express';
import { limitBodyParsers } from './body-parsers.js';
import { ServiceError } from '../common/service-error.js';
import { guardHttpEdge, guardRoutes } from './http-edge.js';
import { RouteTable } from './route-table.js';
import { answerError, toServiceError } from './service-exception.filter.js';
import { WHOLE_APPLICATION } from './whole-application.js';

/** Express recognizes an error handler by its four parameters. */
const answerExpressError: ErrorRequestHandler = (error, request, response, _next) => {
  answerError(request, response, toServiceError(error));
};

/**
 * Gives the operations of the service their request ids, headers, log lines and unread bodies. In an application of
 * somebody else, this concerns the operations of the service alone. With `WholeApplicationModule`, it concerns every
 * request: an unknown path and what the HTTP parser refuses too.
 */
@Module({ providers: [RouteTable], exports: [RouteTable] })
export class HttpModule implements OnModuleInit, OnApplicationBootstrap {
  constructor(
    private readonly host: HttpAdapterHost,
    private readonly routes: RouteTable,
    @Optional() @Inject(WHOLE_APPLICATION) private readonly isWhole = false,
  ) {}

  /** @throws Error when the application is not on Express. */
  onModuleInit(): void {
    const { httpAdapter } = this.host;
    if (httpAdapter.getType() !== 'express') throw new Error('load-data-service needs Nest on Express (@nestjs/platform-express).');
    const server = httpAdapter.getHttpServer() as Server;
    if (this.isWhole) guardHttpEdge(server);
    else guardRoutes(server, (request) => this.routes.isService(request));
  }

  /**
   * Nest has registered all routes by now, and its own last handlers, which only handle paths below the global prefix.
   */
  onApplicationBootstrap(): void {
    const express = this.host.httpAdapter.getInstance<Express>();
    this.routes.read(express);
    // If the application is only the service, the body of a request for an unknown path stays unread too.
    const isParsed = (request: IncomingMessage): boolean => (this.isWhole ? this.routes.isOther(request) : !this.routes.isService(request));
    limitBodyParsers(express, isParsed);
    if (!this.isWhole) return;
    express.use((request: Request, response: Response) => {
      answerError(request, response, new ServiceError('not-found'));
    });
    express.use(answerExpressError);
  }
}

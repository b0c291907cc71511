import type { IncomingMessage, Server } from 'node:http';
import { Inject, Module, type OnApplicationBootstrap, type OnModuleInit, Optional } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import type { ErrorRequestHandler, Express, Request, Response } from 'express';
import { limitBodyParsers } from './body-parsers.js';
import { logBodyAlreadyRead } from './body-already-read.js';
import { ServiceError } from '../common/service-error.js';
import { HttpAdapter } from './http.adapter.js';
import { guardHttpEdge, guardRoutes } from './http-edge.js';
import { RouteTable } from './route-table.js';
import { answerError, toServiceError } from './service-exception.filter.js';
import { WHOLE_APPLICATION } from './whole-application.js';

/** Express recognizes an error handler by its four parameters, so the last one is declared although it isn't used. */
const answerExpressError: ErrorRequestHandler = (error, request, response, _next) => {
  // The router sets the status 400 on its error for a path that can't be decoded. Such a path names nothing, so the
  // answer is a 404. A URIError without that status comes from a middleware of the application.
  const isUndecodable = error instanceof URIError && 'status' in error && error.status === 400;
  answerError(request, response, isUndecodable ? new ServiceError('not-found', 'The path cannot be decoded.', { cause: error }) : toServiceError(error));
};

/**
 * Prepares each request for an operation of the service: gives it a request id and a log line, checks its head, and
 * keeps the application's body parsers from reading its body. With `WholeApplicationModule`, prepares every request.
 */
@Module({ providers: [RouteTable], exports: [RouteTable] })
export class HttpModule implements OnModuleInit, OnApplicationBootstrap {
  constructor(
    private readonly host: HttpAdapterHost,
    private readonly routes: RouteTable,
    @Optional() @Inject(WHOLE_APPLICATION) private readonly isWhole = false,
  ) {}

  /**
   * When this hook runs, Nest has registered all routes, but not yet its last handlers, for unknown paths and errors.
   * So an error that a middleware of the application passes to Express reaches the service before it reaches Nest.
   *
   * @throws Error when the application uses another HTTP adapter than Express.
   */
  onModuleInit(): void {
    const { httpAdapter } = this.host;
    if (httpAdapter.getType() !== 'express') throw new Error('load-data-service needs Nest on Express (@nestjs/platform-express).');
    const server = httpAdapter.getHttpServer() as Server;
    if (this.isWhole) guardHttpEdge(server);
    else guardRoutes(server, (request) => this.routes.isService(request));
    httpAdapter.getInstance<Express>().use(this.answerMiddlewareError);
  }

  private readonly answerMiddlewareError: ErrorRequestHandler = (error, request, response, next) => {
    if (!this.routes.isService(request)) {
      next(error);
      return;
    }
    if (request.readableDidRead) logBodyAlreadyRead(request);
    answerExpressError(error, request, response, next);
  };

  /**
   * Keeps body parsers from the service's requests. If the application is the service as a whole, adds last handlers,
   * because Nest's own handle only paths below the global prefix.
   */
  onApplicationBootstrap(): void {
    const { httpAdapter } = this.host;
    const express = httpAdapter.getInstance<Express>();
    this.routes.read(express);
    // If the application is the service as a whole, the parsers also skip requests for unknown paths.
    const isParsed = (request: IncomingMessage): boolean => (this.isWhole ? this.routes.isOther(request) : !this.routes.isService(request));
    limitBodyParsers(express, isParsed);
    if (!this.isWhole) return;
    if (httpAdapter instanceof HttpAdapter) httpAdapter.useDirectRoutes(this.routes.directRoutes(express));
    express.use((request: Request, response: Response) => {
      answerError(request, response, new ServiceError('not-found'));
    });
    express.use(answerExpressError);
  }
}

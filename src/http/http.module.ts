import type { Server } from 'node:http';
import { Module, type OnApplicationBootstrap, type OnModuleInit } from '@nestjs/common';
import { APP_FILTER, HttpAdapterHost } from '@nestjs/core';
import type { ErrorRequestHandler, Express, Request, Response } from 'express';
import { ServiceError } from '../common/service-error.js';
import { guardHttpEdge } from './http-edge.js';
import { answerError, ServiceExceptionFilter, toServiceError } from './service-exception.filter.js';

/** Express recognizes an error handler by its four parameters. */
const answerExpressError: ErrorRequestHandler = (error, request, response, _next) => {
  answerError(request, response, toServiceError(error));
};

/** Gives every error answer the interface's form, from the parser's refusals to what a handler throws. */
@Module({ providers: [{ provide: APP_FILTER, useClass: ServiceExceptionFilter }] })
export class HttpModule implements OnModuleInit, OnApplicationBootstrap {
  constructor(private readonly host: HttpAdapterHost) {}

  onModuleInit(): void {
    guardHttpEdge(this.host.httpAdapter.getHttpServer() as Server);
  }

  /**
   * Registers handlers after all routes and before Nest's own last handlers, which only handle paths below the global
   * prefix.
   */
  onApplicationBootstrap(): void {
    const express = this.host.httpAdapter.getInstance<Express>();
    express.use((request: Request, response: Response) => {
      answerError(request, response, new ServiceError('not-found'));
    });
    express.use(answerExpressError);
  }
}

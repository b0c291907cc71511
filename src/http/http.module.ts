import type { Server } from 'node:http';
import { Module, type OnApplicationBootstrap, type OnModuleInit } from '@nestjs/common';
import { APP_FILTER, HttpAdapterHost } from '@nestjs/core';
import type { ErrorRequestHandler, Express, Request, Response } from 'express';
import { ServiceError } from '../common/service-error.js';
import { answerError } from './answer.js';
import { guardHttpEdge } from './http-edge.js';
import { ServiceExceptionFilter } from './service-exception.filter.js';
import { toServiceError } from './to-service-error.js';

/** Express tells a handler of errors by its four parameters. */
const answerExpressError: ErrorRequestHandler = (error, request, response, _next) => {
  answerError(request, response, toServiceError(error));
};

/** Makes every error answer the interface's own, from the parser's refusals to what a handler throws. */
@Module({ providers: [{ provide: APP_FILTER, useClass: ServiceExceptionFilter }] })
export class HttpModule implements OnModuleInit, OnApplicationBootstrap {
  constructor(private readonly host: HttpAdapterHost) {}

  onModuleInit(): void {
    guardHttpEdge(this.host.httpAdapter.getHttpServer() as Server);
  }

  /** Behind all routes and ahead of Nest's own last handlers, which know only the global prefix. */
  onApplicationBootstrap(): void {
    const express = this.host.httpAdapter.getInstance<Express>();
    express.use((request: Request, response: Response) => {
      answerError(request, response, new ServiceError('not-found'));
    });
    express.use(answerExpressError);
  }
}

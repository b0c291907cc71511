import type { ServerResponse } from 'node:http';
import { Get, Res, ServiceUnavailableException } from '@nestjs/common';
import { ApiExcludeController } from '@nestjs/swagger';
import { HealthCheckService } from '@nestjs/terminus';
import { FromAnyOrigin } from '../../http/origin.guard.js';
import { ServiceController } from '../../http/service-controller.decorator.js';
import { NotRateLimited } from '../rate-limit.js';
import { Readiness } from './readiness.js';

/** Health endpoints for orchestrators, with the response bodies of terminus. */
@ApiExcludeController()
@NotRateLimited()
@FromAnyOrigin()
@ServiceController('health')
export class HealthController {
  constructor(
    private readonly health: HealthCheckService,
    private readonly readiness: Readiness,
  ) {}

  @Get('live')
  live(): Promise<object> {
    return this.health.check([]);
  }

  /** Reports whether the service is ready. Answers 503 when a dependency is unhealthy, and while the service stops. */
  @Get('ready')
  async ready(@Res({ passthrough: true }) response: ServerResponse): Promise<object> {
    try {
      return await this.health.check(this.readiness.checks);
    } catch (error) {
      if (!(error instanceof ServiceUnavailableException)) throw error;
      response.statusCode = error.getStatus();
      return error.getResponse() as object;
    }
  }
}

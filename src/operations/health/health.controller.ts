import type { ServerResponse } from 'node:http';
import { Get, Res, ServiceUnavailableException } from '@nestjs/common';
import { ApiExcludeController } from '@nestjs/swagger';
import { HealthCheckService } from '@nestjs/terminus';
import { FromAnyOrigin } from '../../http/origin.guard.js';
import { ServiceController } from '../../http/service-controller.decorator.js';
import { NotRateLimited } from '../rate-limit.js';
import { Readiness } from './readiness.js';

/** Health endpoints for orchestrators. The response bodies are those of terminus. */
@ApiExcludeController()
@NotRateLimited()
@FromAnyOrigin()
@ServiceController('health')
export class HealthController {
  constructor(
    private readonly health: HealthCheckService,
    private readonly readiness: Readiness,
  ) {}

  /** Answers 200 as long as the process serves requests. */
  @Get('live')
  live(): Promise<object> {
    return this.health.check([]);
  }

  /**
   * Answers 200 when neither the file storage nor the identity provider is unhealthy, so that every operation can be
   * served. Otherwise, and while the service stops, answers 503.
   */
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

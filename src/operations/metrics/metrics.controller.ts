import { Get, Header } from '@nestjs/common';
import { ApiExcludeController } from '@nestjs/swagger';
import { Registry } from 'prom-client';
import { FromAnyOrigin } from '../../http/origin.guard.js';
import { ServiceController } from '../../http/service-controller.decorator.js';
import { NotRateLimited } from '../rate-limit.js';
import { Metrics } from './metrics.js';

/** Serves the metrics in Prometheus' text format. */
@ApiExcludeController()
@NotRateLimited()
@FromAnyOrigin()
@ServiceController('metrics')
export class MetricsController {
  constructor(private readonly metrics: Metrics) {}

  @Get()
  @Header('Content-Type', Registry.PROMETHEUS_CONTENT_TYPE)
  read(): Promise<string> {
    return this.metrics.registry.metrics();
  }
}

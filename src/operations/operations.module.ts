import { Global, Module } from '@nestjs/common';
import { Metrics } from './metrics/metrics.js';
import { ServiceAddress } from './service-address.js';

/** Provides the metrics and the service's address to the whole application. */
@Global()
@Module({ providers: [Metrics, ServiceAddress], exports: [Metrics, ServiceAddress] })
export class OperationsModule {}

import { Global, Module } from '@nestjs/common';
import { Metrics } from './metrics/metrics.js';
import { ServiceAddress } from './service-address.js';

/** What is observed of the service, for whoever composes it. */
@Global()
@Module({ providers: [Metrics, ServiceAddress], exports: [Metrics, ServiceAddress] })
export class OperationsModule {}

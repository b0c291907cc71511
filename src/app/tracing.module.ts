import { type DynamicModule, Module } from '@nestjs/common';
import type { Tracing } from '../operations/tracing/tracing.js';

const TRACING = Symbol('tracing');

/**
 * Shuts tracing down after everything else; otherwise an unreachable receiver of traces would delay the closing of the
 * store. Nest 11 and 12 shut global modules down last, and of these the first import last, so `TracingModule` must be
 * the first import of the root module.
 */
@Module({})
export class TracingModule {
  static forRoot(tracing: Tracing): DynamicModule {
    // `Tracing` has a factory, because Nest passes only instances that it creates itself to its option `instrument`.
    // There, `CreatedInstances` records the `Tracing`, to close it if creating the application fails.
    return { module: TracingModule, global: true, providers: [{ provide: TRACING, useFactory: () => tracing }] };
  }
}

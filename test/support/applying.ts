import { type MiddlewareConsumer, Module, type Type } from '@nestjs/common';

/** A module with these controllers that applies middleware. */
export function applying(configure: (consumer: MiddlewareConsumer) => unknown, ...controllers: Type[]): Type {
  @Module({ controllers })
  class ApplyingModule {
    configure(consumer: MiddlewareConsumer): void {
      configure(consumer);
    }
  }
  return ApplyingModule;
}

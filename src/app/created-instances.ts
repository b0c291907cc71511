import type { LoggerService, OnApplicationShutdown } from '@nestjs/common';

/**
 * Records the closable instances that Nest creates for one application, to close them if creating the application
 * fails. Nest would forget them without closing them.
 */
export class CreatedInstances {
  private readonly instances = new Set<OnApplicationShutdown>();
  private isAbandoned = false;
  private isOver = false;

  constructor(private readonly logger: LoggerService) {}

  /** For Nest's option `instrument`: records an instance if it can be closed, and returns every instance unchanged. */
  readonly record = (instance: unknown): unknown => {
    if (this.isOver || !hasShutdown(instance)) return instance;
    if (this.isAbandoned) void this.close(instance);
    else this.instances.add(instance);
    return instance;
  };

  /** Stops recording when the application has been created, because Nest then closes the instances itself. */
  stop(): void {
    this.isOver = true;
    this.instances.clear();
  }

  /** Closes all recorded instances. An instance that Nest creates later is closed at once, but not waited for. */
  async abandon(): Promise<void> {
    this.isAbandoned = true;
    await Promise.all([...this.instances].map((instance) => this.close(instance)));
  }

  private async close(instance: OnApplicationShutdown): Promise<void> {
    try {
      await instance.onApplicationShutdown();
    } catch (err) {
      this.logger.error({ msg: 'an adapter of an application that could not be created failed to close', err });
    }
  }
}

export const hasShutdown = (instance: unknown): instance is OnApplicationShutdown =>
  typeof instance === 'object' && instance !== null && typeof (instance as Partial<OnApplicationShutdown>).onApplicationShutdown === 'function';

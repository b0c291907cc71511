import type { LoggerService, OnApplicationShutdown } from '@nestjs/common';

/**
 * The instances that Nest creates for one application. Nest creates them side by side and forgets them if one fails, so
 * they are recorded here to be closed.
 */
export class CreatedInstances {
  private readonly instances = new Set<OnApplicationShutdown>();
  private isAbandoned = false;
  private isOver = false;

  constructor(private readonly logger: LoggerService) {}

  /** Records an instance, for the option `instrument` of Nest. */
  readonly record = (instance: unknown): unknown => {
    if (this.isOver || !hasShutdown(instance)) return instance;
    if (this.isAbandoned) void this.close(instance);
    else this.instances.add(instance);
    return instance;
  };

  /** Records nothing from now on, because Nest closes the application's instances. */
  stop(): void {
    this.isOver = true;
    this.instances.clear();
  }

  /** Closes all instances: those that exist now, and each that is still opening, as soon as it has opened. */
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

const hasShutdown = (instance: unknown): instance is OnApplicationShutdown =>
  typeof instance === 'object' && instance !== null && typeof (instance as Partial<OnApplicationShutdown>).onApplicationShutdown === 'function';

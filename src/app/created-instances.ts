import type { LoggerService, OnApplicationShutdown } from '@nestjs/common';

/**
 * The instances that Nest creates for one application and that can be closed (`onApplicationShutdown`), such as
 * adapters. Nest creates instances concurrently. If one fails, Nest forgets the others without closing them, so this
 * class records them.
 */
export class CreatedInstances {
  private readonly instances = new Set<OnApplicationShutdown>();
  private isAbandoned = false;
  private isOver = false;

  constructor(private readonly logger: LoggerService) {}

  /**
   * Records an instance that can be closed. After `abandon`, closes it at once instead; after `stop`, does neither.
   * Returns every instance unchanged, as Nest's option `instrument` requires.
   */
  readonly record = (instance: unknown): unknown => {
    if (this.isOver || !hasShutdown(instance)) return instance;
    if (this.isAbandoned) void this.close(instance);
    else this.instances.add(instance);
    return instance;
  };

  /**
   * Ends the recording. Called when the application has been created, because Nest then closes the instances itself.
   */
  stop(): void {
    this.isOver = true;
    this.instances.clear();
  }

  /**
   * Closes all recorded instances. Called when creating the application has failed. An instance that Nest is still
   * creating is closed as soon as Nest has created it. The returned promise doesn't wait for that.
   */
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

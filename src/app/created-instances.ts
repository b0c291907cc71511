import type { LoggerService, OnApplicationShutdown } from '@nestjs/common';

/**
 * The instances that Nest creates for one application and that can be closed (`onApplicationShutdown`), such as
 * adapters. Nest creates instances concurrently and forgets all of them if one fails, so this class records them to
 * close them.
 */
export class CreatedInstances {
  private readonly instances = new Set<OnApplicationShutdown>();
  private isAbandoned = false;
  private isOver = false;

  constructor(private readonly logger: LoggerService) {}

  /**
   * Records an instance that can be closed, or closes it at once after `abandon`. Returns every instance unchanged, as
   * Nest's option `instrument` requires.
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
   * Closes all recorded instances. Called when creating the application has failed. An instance that is still opening
   * is closed as soon as it has opened, which the promise doesn't wait for.
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

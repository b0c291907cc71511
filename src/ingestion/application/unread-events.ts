import { Injectable, Logger, type OnApplicationBootstrap } from '@nestjs/common';
import { FileStorage } from './ports/file-storage.port.js';

/**
 * Warns at boot if the store records events for a receiver, but no receiver is set. The store then keeps the ids and
 * customers of removed uploads until someone acts. Boot doesn't wait for the store's answer.
 */
@Injectable()
export class UnreadEvents implements OnApplicationBootstrap {
  private readonly logger = new Logger(UnreadEvents.name);

  constructor(private readonly fileStorage: FileStorage) {}

  onApplicationBootstrap(): void {
    void this.warn().catch(() => undefined);
  }

  private async warn(): Promise<void> {
    if (!(await this.fileStorage.eventOutbox?.hasBegun())) return;
    this.logger.warn('Events are recorded but not delivered, because no receiver is set, so the store keeps the ids and customers of removed uploads. Set EVENTS_WEBHOOK_URL, or stop the service and remove events/ from the store.');
  }
}

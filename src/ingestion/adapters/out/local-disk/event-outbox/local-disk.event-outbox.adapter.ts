import type { Wakeup } from '../../../../../common/wakeup.js';
import { EventOutbox, type OutboxBatch } from '../../../../application/ports/event-outbox.port.js';
import { storageFailure } from '../../../../application/storage-failure.js';
import type { OpenStore } from '../open-store.js';

const MAX_WAIT_MS = 60_000;

/** The event outbox of a store in a directory of the local file system. */
export class LocalDiskEventOutbox extends EventOutbox {
  private since: Date | undefined;

  constructor(
    /** Runs `work` on the store, reopening a store that went away. Rejects with `storage-failure` if that fails. */
    private readonly withStore: <T>(work: (store: OpenStore) => Promise<T>) => Promise<T>,
    private readonly news: Wakeup,
    private readonly onOpened: () => void,
  ) {
    super();
  }

  override async open(): Promise<void> {
    await this.withStore((store) => store.beginEvents()).catch(storageFailure('The outbox could not be opened.'));
    this.onOpened();
  }

  override hasBegun(): Promise<boolean> {
    return this.withStore((store) => Promise.resolve(store.recordsEvents)).catch(storageFailure('Checking for the event outbox failed.'));
  }

  override async next(limit: number): Promise<OutboxBatch | undefined> {
    this.news.clear();
    const given = await this.withStore(async (store) => ({ store, batch: await store.events.next(limit) })).catch(storageFailure('The events could not be read.'));
    const { store, batch } = given;
    this.since = store.events.unreadableSince;
    // If the store was reopened since, `confirm` does nothing: the reopened store returns the events again.
    const confirm = (): Promise<void> =>
      this.withStore((current) => (current === store && batch ? batch.confirm() : Promise.resolve())).catch(storageFailure('Events could not be confirmed.'));
    return batch && { ...batch, confirm };
  }

  override get unreadableSince(): Date | undefined {
    return this.since;
  }

  override wait(signal: AbortSignal): Promise<void> {
    return this.news.sleep(MAX_WAIT_MS, signal);
  }

  /** Does nothing: no other process can deliver the events, because the lock of the data directory keeps it out. */
  override close(): Promise<void> {
    return Promise.resolve();
  }
}

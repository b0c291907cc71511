import { MAX_EVENTS_BYTES, type OutboxEvent } from '../../../../application/ports/event-outbox.port.js';

const MAX_READS_AT_ONCE = 256;

/** A batch of events that is being collected, and the actions to run once the receiver has confirmed these events. */
export class BatchDraft {
  readonly events: OutboxEvent[] = [];
  /** The number of actions. A batch may have actions but no event, as at the end of a segment confirmed before. */
  steps = 0;
  private bytes = 0;
  private readonly onConfirmed: (() => void)[] = [];

  constructor(private readonly limit: number) {}

  get room(): number {
    return this.roomBytes === 0 ? 0 : this.limit - this.events.length;
  }

  /** How many more bytes of index lines the batch may take. */
  get roomBytes(): number {
    return Math.max(0, MAX_EVENTS_BYTES - this.bytes);
  }

  /**
   * Adds an event if it fits into the batch, and returns whether it does. The first event may be of any length.
   *
   * @param bytes the length of the event's index line; an estimate for a removal, which has no index line.
   */
  add(event: OutboxEvent, bytes: number): boolean {
    const fits = this.room > 0 && (this.events.length === 0 || bytes <= this.roomBytes);
    if (!fits) return false;
    this.events.push(event);
    this.bytes += bytes;
    return true;
  }

  onceConfirmed(action: () => void): void {
    this.steps += 1;
    this.onConfirmed.push(action);
  }

  /** Runs the batch's actions. Call it when the receiver has confirmed the events, or if the batch has none. */
  settle(): void {
    for (const action of this.onConfirmed.splice(0)) action();
  }
}

/** Events of one sort, such as removals of uploads, that the receiver hasn't confirmed yet. */
export interface EventSource {
  /**
   * About when the source's oldest unconfirmed event happened, in milliseconds since 1970; undefined if there is none.
   */
  readonly since: number | undefined;
  /**
   * Adds unconfirmed events to a batch. Resolves to false if nothing more may be added to the batch: it has no room for
   * all events of the source, or some of them must be looked up again first.
   */
  fill(batch: BatchDraft): Promise<boolean>;
}

/** About how many events an object has, and how many bytes. */
interface Estimate {
  readonly events: number;
  readonly bytes: number;
}

/**
 * The next objects of a queue whose events probably fit into a batch together: 1 to 256, if there are any. Many uploads
 * have a segment of their own. So the number of reads at once, divided by the latency of the store, limits the rate at
 * which the events of such uploads are delivered.
 *
 * Memory is bounded by the room for bytes in the batch, or by the first object.
 */
export function nextToRead<Listed>(queue: readonly Listed[], from: number, { room, roomBytes }: BatchDraft, estimate: (listed: Listed) => Estimate): Listed[] {
  const objects: Listed[] = [];
  const sum = { events: 0, bytes: 0 };
  for (const object of queue.slice(from, from + MAX_READS_AT_ONCE)) {
    const { events, bytes } = estimate(object);
    sum.events += Math.max(1, Math.floor(events));
    sum.bytes += bytes;
    if (objects.length > 0 && (sum.events > room || sum.bytes > roomBytes)) break;
    objects.push(object);
  }
  return objects;
}

import { MAX_EVENTS_BYTES, type OutboxEvent } from '../../../../application/ports/event-outbox.port.js';

const READS_AT_ONCE = 16;

/** Events that are being collected, and what is to be remembered once they were told. */
export class BatchDraft {
  readonly events: OutboxEvent[] = [];
  /** The number of steps, such as segments that were read to their end. Some have no event. */
  steps = 0;
  private bytes = 0;
  private readonly onTold: (() => void)[] = [];

  constructor(private readonly limit: number) {}

  /** For how many events there is room. */
  get room(): number {
    return this.bytes >= MAX_EVENTS_BYTES ? 0 : this.limit - this.events.length;
  }

  /** Adds an event unless there is no room for it. */
  add(event: OutboxEvent, bytes: number): boolean {
    const fits = this.room > 0 && (this.events.length === 0 || this.bytes + bytes <= MAX_EVENTS_BYTES);
    if (!fits) return false;
    this.events.push(event);
    this.bytes += bytes;
    return true;
  }

  /** Adds what is to be done when the events so far were told. */
  onceTold(action: () => void): void {
    this.steps += 1;
    this.onTold.push(action);
  }

  /** Takes the events for told. */
  settle(): void {
    for (const action of this.onTold.splice(0)) action();
  }
}

/** Events of one sort that wait, the oldest first. */
export interface EventSource {
  /** When the first event happened, about, in milliseconds since 1970; undefined if no event waits. */
  readonly since: number | undefined;
  /** Adds events to a batch. Resolves to false if there are more than the batch has room for. */
  fill(batch: BatchDraft): Promise<boolean>;
}

/**
 * The next objects that probably fit into a batch together, at least one and at most 16. They can be read at once.
 *
 * @param eventsIn returns about how many events an object has.
 */
export function nextToRead<Listed>(queue: readonly Listed[], from: number, room: number, eventsIn: (listed: Listed) => number): Listed[] {
  const objects: Listed[] = [];
  let events = 0;
  for (const object of queue.slice(from, from + READS_AT_ONCE)) {
    events += Math.max(1, Math.floor(eventsIn(object)));
    if (objects.length > 0 && events > room) break;
    objects.push(object);
  }
  return objects;
}

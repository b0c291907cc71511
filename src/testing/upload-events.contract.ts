import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { UploadEvent, UploadEvents } from '../ingestion/application/ports/upload-events.port.js';
import { anUploadDraft } from './upload-draft.builder.js';
import { anUploadEvent, aRemovalEvent, someUploadEvents } from './upload-events.builder.js';

/** A receiver that was told nothing yet. */
export interface UploadEventsContractSubject {
  readonly events: UploadEvents;
  /** All events that the receiver has taken, parsed, in the order in which it took them. */
  taken(): Promise<readonly UploadEvent[]>;
  /** Makes the receiver refuse deliveries, or unreachable, until `accept`. */
  refuse(): Promise<void>;
  /** Ends `refuse`. */
  accept(): Promise<void>;
  /** Releases the resources of the subject. */
  tearDown(): Promise<void>;
}

/**
 * The tests that every `UploadEvents` must pass.
 *
 * @param setUp creates a new subject for each test.
 */
export function uploadEventsContract(name: string, setUp: () => Promise<UploadEventsContractSubject>): void {
  describe(`UploadEvents contract: ${name}`, () => {
    let subject: UploadEventsContractSubject;
    beforeEach(async () => {
      subject = await setUp();
    });
    afterEach(() => subject.tearDown());

    const deliver = (...events: UploadEvent[]): Promise<void> => subject.events.deliver(events, new AbortController().signal);

    it.each<[string, () => Promise<UploadEvent>]>([
      ['a stored upload', () => anUploadEvent()],
      ['a stored upload with odd texts', () => anUploadEvent(anUploadDraft().with({ customerId: 'a/b "c" 電', filename: 'é .csv', additionalData: '\u0000"\n\\ 🙂' }))],
      ['a stored upload with a long text', () => anUploadEvent(anUploadDraft().with({ additionalData: 'é"🙂'.repeat(40_000) }))],
      ['a removed upload', () => Promise.resolve(aRemovalEvent())],
    ])('delivers the event of %s unchanged', async (_, create) => {
      const event = await create();
      await deliver(event);
      expect(await subject.taken()).toEqual([event]);
    });

    it('delivers 500 events in their order, and later ones after them', async () => {
      const [first, second] = [await someUploadEvents(500), await someUploadEvents(3)];
      await deliver(...first);
      await deliver(...second);
      expect(await subject.taken()).toEqual([...first, ...second]);
    });

    it('accepts events that were delivered before', async () => {
      const events = await someUploadEvents(3);
      await deliver(...events);
      await deliver(...events);
      const last = await anUploadEvent();
      await deliver(last);
      expect([...new Set((await subject.taken()).map(({ id }) => id))]).toEqual([...events, last].map(({ id }) => id));
    });

    it('rejects while the receiver refuses, and delivers the same events afterwards', async () => {
      const events = await someUploadEvents(3);
      await subject.refuse();
      await expect(deliver(...events)).rejects.toThrow();
      await subject.accept();
      await deliver(...events);
      expect((await subject.taken()).slice(-3)).toEqual(events);
    });

    it('rejects if its signal is aborted before the delivery', async () => {
      await expect(subject.events.deliver(await someUploadEvents(1), AbortSignal.abort())).rejects.toThrow();
      expect(await subject.taken()).toEqual([]);
    });
  });
}

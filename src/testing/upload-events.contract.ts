import type { UploadEvent, UploadEvents } from '../ingestion/application/ports/upload-events.port.js';
import { assertEqual, rejectionOf } from './expectations.js';
import { promisesOf } from './port-promise.js';
import { currentTestRunner, type TestRunner } from './test-runner.js';
import { anUploadDraft } from './upload-draft.builder.js';
import { anUploadEvent, aRemovalEvent, someUploadEvents } from './upload-events.builder.js';
import { PROMISES } from './upload-events.promises.js';

/** The subject of one test of `uploadEventsContract`: a new receiver, and the `UploadEvents` that delivers to it. */
export interface UploadEventsContractSubject {
  readonly events: UploadEvents;
  taken(): Promise<readonly UploadEvent[]>;
  refuse(): Promise<void>;
  accept(): Promise<void>;
  tearDown(): Promise<void>;
}

/**
 * Defines the tests that every adapter of the `UploadEvents` port must pass.
 *
 * @param setUp creates a new receiver, and an `UploadEvents` that delivers to it, for each test.
 * @param runner default: the global functions of the running test runner, or Vitest's own.
 */
export function uploadEventsContract(name: string, setUp: () => Promise<UploadEventsContractSubject>, runner: TestRunner = currentTestRunner()): void {
  const { describe, beforeEach, afterEach } = runner;
  const it = promisesOf('UploadEvents', runner);

  describe(`UploadEvents contract: ${name}`, () => {
    let subject: UploadEventsContractSubject;
    beforeEach(async () => {
      subject = await setUp();
    });
    afterEach(() => subject.tearDown());

    const deliver = (...events: UploadEvent[]): Promise<void> => subject.events.deliver(events, new AbortController().signal);

    for (const [what, create] of [
      ['a stored upload', () => anUploadEvent()],
      ['a stored upload with odd texts', () => anUploadEvent(anUploadDraft().with({ customerId: 'a/b "c" 電', filename: 'é .csv', additionalData: '\u0000"\n\\ 🙂' }))],
      ['a stored upload with a long text', () => anUploadEvent(anUploadDraft().with({ additionalData: 'é"🙂'.repeat(40_000) }))],
      ['a removed upload', () => Promise.resolve(aRemovalEvent())],
    ] as [string, () => Promise<UploadEvent>][]) {
      it(PROMISES.order, `delivers the event of ${what} unchanged`, async () => {
        const event = await create();
        await deliver(event);
        assertEqual(await subject.taken(), [event]);
      });
    }

    it(PROMISES.order, 'delivers 500 events in their order, and later ones after them', async () => {
      const [first, second] = [await someUploadEvents(500), await someUploadEvents(3)];
      await deliver(...first);
      await deliver(...second);
      assertEqual(await subject.taken(), [...first, ...second]);
    });

    it(PROMISES.again, 'accepts events that were delivered before', async () => {
      const events = await someUploadEvents(3);
      await deliver(...events);
      await deliver(...events);
      const last = await anUploadEvent();
      await deliver(last);
      assertEqual([...new Set((await subject.taken()).map(({ id }) => id))], [...events, last].map(({ id }) => id));
    });

    it(PROMISES.taken, 'rejects while the receiver refuses, and delivers the same events afterwards', async () => {
      const events = await someUploadEvents(3);
      await subject.refuse();
      await rejectionOf(deliver(...events));
      await subject.accept();
      await deliver(...events);
      assertEqual((await subject.taken()).slice(-3), events);
    });

    it(PROMISES.aborted, 'rejects if its signal is aborted before the delivery', async () => {
      await rejectionOf(subject.events.deliver(await someUploadEvents(1), AbortSignal.abort()));
      assertEqual(await subject.taken(), []);
    });
  });
}

import type { PortPromise } from './port-promise.js';

/** The promises of the port `EventOutbox` that `eventOutboxContract` tests, and advice for adapters that break them. */
export const PROMISES = {
  order: {
    sentence: 'Events of the same segment (a file of index lines) are in the order of its lines, unless the lines were moved there later.',
    advice: 'Read the unconfirmed lines of a segment, and return each upload as decodeIndexLine() returns it.',
  },
  limit: {
    sentence: 'maximum number of events, at least 1.',
    advice: 'End a batch at its limit.',
  },
  acknowledged: {
    sentence: 'From then on, each upload that is acknowledged is in the outbox until its event is confirmed or the upload is removed.',
    advice: 'Return an event for what has a line: for each upload once, and for neither a repeated request nor a failed upload.',
  },
  bytes: {
    sentence: 'Memory for events is bounded by `limit` and `MAX_EVENTS_BYTES`, or by one longer line, however many events wait.',
    advice: 'End a batch before its lines have more than MAX_EVENTS_BYTES together, unless it has only one.',
  },
  beginning: {
    sentence: 'The outbox contains every upload that is stored after `open` resolved for the first time,',
    advice: 'Remember durably with the store where it began, and return no events from before that.',
  },
  undelivered: {
    sentence: 'even if no process delivers events at that time.',
    advice: 'Remember how far the lines are confirmed, so that the events of all lines behind it are returned after any restart.',
  },
  again: {
    sentence: 'Creates the outbox if the store has none yet.',
    advice: 'Let open() leave an outbox alone that has begun.',
  },
  unconfirmed: {
    sentence: "After a batch that wasn't confirmed, the next call begins with the same events again:",
    advice: 'Move on only in confirm(), and remember it with the store.',
  },
  wait: {
    sentence: "Resolves when there may be events that the last call of `next` didn't return,",
    advice: 'Wake the wait when an upload is stored or removed, even if that was before the call.',
  },
  aborted: {
    sentence: 'and when the signal aborts.',
    advice: 'Listen to the signal of wait(), and never reject.',
  },
  removal: {
    sentence: 'The event that an upload was removed.',
    advice: 'Make the event durable together with the removal, with the customer and the time.',
  },
  removedOnly: {
    sentence: 'If an upload is removed before its event was delivered, only the event of its removal is delivered.',
    advice: 'Let removals take the lines of unconfirmed uploads away, and move the position of the lines that are left.',
  },
  removedMeanwhile: {
    sentence: 'without uploads that were removed meanwhile.',
    advice: 'Read the lines again for a repeated batch.',
  },
} as const satisfies Record<string, PortPromise>;

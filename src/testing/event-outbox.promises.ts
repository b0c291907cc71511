import type { PortPromise } from './port-promise.js';

/** The promises of the port `EventOutbox` that `eventOutboxContract` tests, and advice for adapters that break them. */
export const PROMISES = {
  order: {
    sentence: 'The next events, in the order of the index within a segment.',
    advice: 'Read the lines of a segment from where it was told, and tell each upload as decodeIndexLine() returns it.',
  },
  limit: {
    sentence: 'maximum number of events, at least 1.',
    advice: 'End a batch at its limit.',
  },
  acknowledged: {
    sentence: 'Uploads that are acknowledged afterwards are in it.',
    advice: 'Tell what has a line: each upload once, and neither a repeated request nor a failed upload.',
  },
  bytes: {
    sentence: 'Memory is bounded by `limit` and `MAX_EVENTS_BYTES`, however many events wait.',
    advice: 'End a batch before its lines have more than MAX_EVENTS_BYTES together, unless it has only one.',
  },
  beginning: {
    sentence: 'The outbox begins with what is stored after `open` resolved for the first time.',
    advice: 'Remember durably with the store where it began, and tell nothing before that.',
  },
  untold: {
    sentence: 'including those that are stored while no process tells.',
    advice: 'Remember how far the lines were told, so that everything behind it is told after any restart.',
  },
  again: {
    sentence: 'Begins the outbox if the store has none yet.',
    advice: 'Let open() leave an outbox alone that has begun.',
  },
  unconfirmed: {
    sentence: 'Until a batch is confirmed, `next` begins with the same events,',
    advice: 'Move on only in confirm(), and remember it with the store.',
  },
  wait: {
    sentence: "Resolves when there may be events that the last call of `next` didn't see;",
    advice: 'Wake the wait when an upload is stored or removed, also if that was before the call.',
  },
  aborted: {
    sentence: 'and when the signal aborts.',
    advice: 'Listen to the signal of wait(), and never reject.',
  },
  removal: {
    sentence: 'An upload was removed.',
    advice: 'Make the event durable together with the removal, with the customer and the time.',
  },
  removedOnly: {
    sentence: 'An upload that is removed before it was told is told as removed only.',
    advice: 'Let removals take the lines of untold uploads away, and move the position of the lines that are left.',
  },
  removedMeanwhile: {
    sentence: 'except for uploads that were removed meanwhile.',
    advice: 'Read the lines again for a repeated batch.',
  },
} as const satisfies Record<string, PortPromise>;

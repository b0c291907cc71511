import type { PortPromise } from './port-promise.js';

/**
 * The promises of the port `UploadEvents` that `uploadEventsContract` tests, and advice for adapters that break them.
 */
export const PROMISES = {
  order: {
    sentence: 'Delivers events in their order.',
    advice: 'Send the events one after the other, or in one batch, as they are.',
  },
  again: {
    sentence: 'So a receiver may get an event more than once, and recognises it by its `id`.',
    advice: 'Accept events that were delivered before.',
  },
  taken: {
    sentence: 'Resolves when the receiver has taken all of them.',
    advice: "Wait for the receiver's acknowledgement of every event, and reject without it.",
  },
  aborted: {
    sentence: 'The delivery must then end soon;',
    advice: 'Begin nothing if the signal is aborted, and pass it on to what you wait for.',
  },
} as const satisfies Record<string, PortPromise>;

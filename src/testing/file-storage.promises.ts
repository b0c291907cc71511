import type { PortPromise } from './port-promise.js';

/**
 * The promises of the port `FileStorage` that `fileStorageContract` tests, and advice for adapters that break them.
 * Promises about idempotency keys are in `KEY_PROMISES`.
 */
export const PROMISES = {
  resolves: {
    sentence: 'resolves: both are durable (they survive a power cut) and visible;',
    advice: 'Write the bytes to the path of the draft and the line that indexLine() makes, sync both, and resolve only then.',
  },
  restart: {
    sentence: 'resolves: both are durable (they survive a power cut) and visible;',
    advice: 'Keep everything in the store itself, so that a new instance finds it.',
  },
  rejects: {
    sentence: 'rejects: neither is visible, at the latest after the next boot.',
    advice: 'When an upload fails, remove its bytes, and write no line before conclude() has resolved.',
  },
  order: {
    sentence: 'The store reads them at most once, in order.',
    advice: 'Append each chunk to the file in the order in which it arrives, and compute size and digest from the same chunks.',
  },
  pull: {
    sentence: 'Holds only a limited part of a file in memory, and reads no faster than it writes.',
    advice: 'Read with for await, and write each chunk before the next one is read: collect none.',
  },
  conclude: {
    sentence: 'A store calls this function at most once: after it has read the last byte of the file, and before anything of the upload is visible.',
    advice: 'Read all bytes first, then call conclude() once, and make line and bytes visible after it.',
  },
  concludeThrows: {
    sentence: 'If the function throws, the store discards the upload, and rejects with that error.',
    advice: "Let the error of conclude() through unchanged, and remove the upload's bytes.",
  },
  unchanged: {
    sentence: 'Errors of `bytes` and of `conclude` are thrown unchanged.',
    advice: 'Let the error that reading throws through, without wrapping it, and remove what was written.',
  },
  atOnce: {
    sentence: 'Any number of calls may be in progress at once.',
    advice: 'Keep the state of an upload in its own call, and append lines so that two never mix.',
  },
  path: {
    sentence: "Final path of the bytes, relative to the store's root (see `domain/layout.ts`).",
    advice: 'Use draft.content.path as it is, and write the line with indexLine(): both are escaped already.',
  },
  healthy: {
    sentence: 'Resolves if an upload could be stored now,',
    advice: 'Let checkHealth() try a write, remove it again, and resolve if it worked.',
  },
} as const satisfies Record<string, PortPromise>;

/**
 * The promises of the port `FileStorage` about idempotency keys, which `idempotencyContract` tests, and advice for
 * adapters that break them.
 */
export const KEY_PROMISES = {
  onlyTheFirst: {
    sentence: 'Of uploads with the same `idempotencyScope` within 24 hours, only the first that succeeds is kept, unless it is removed.',
    advice: 'Look the scope up before storing, and keep it for 24 hours from receivedAt. Compare scopes as they are.',
  },
  withTheLine: {
    sentence: "Its scope is committed together with its line. So after a crash or restart, a repeated request still finds that upload, and isn't stored again.",
    advice: 'Find scopes again from the lines of the store (idempotencyScope() and requestIdentity() of a line), not from memory alone.',
  },
  firstReceipt: {
    sentence: 'For a repeated request, the receipt of the first request, after the repeated bytes were read and `conclude` was called too.',
    advice: 'Return { uploadId, content, replayed: true } of the first upload, and remove the repeated bytes.',
  },
  reused: {
    sentence: '`idempotency-key-reused` if the first upload differs (see `requestIdentity`);',
    advice: "Compare requestIdentity() of both uploads, and throw a new ServiceError('idempotency-key-reused') if they differ.",
  },
  inProgress: {
    sentence: '`request-in-progress` with `retryAfterSeconds` 1, before any byte is read, while another upload of the scope may be in progress;',
    advice: "Remember the scopes in progress, and throw a ServiceError of kind 'request-in-progress' with retryAfterSeconds 1 before reading.",
  },
  freed: {
    sentence: 'An upload that fails frees its scope;',
    advice: 'Forget the scope of an upload when it fails, in memory and in the store.',
  },
} as const satisfies Record<string, PortPromise>;

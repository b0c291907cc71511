import type { PortPromise } from './port-promise.js';

/**
 * The promises of the port `StoredUploads` that `storedUploadsContract` tests, and advice for adapters that break them.
 */
export const PROMISES = {
  found: {
    sentence: 'An upload is found as soon as `FileStorage.store` has resolved, by every process that uses the store.',
    advice: 'Read the lines themselves, with parseIndexLine(), and not a list that is made later or lost at a restart.',
  },
  longUploads: {
    sentence: 'The id is a version 7 UUID with the time at which the upload began, and an upload takes at most `MAX_UPLOAD_DURATION_MS`.',
    advice: 'Search from the time of the id to MAX_UPLOAD_DURATION_MS after it, also in the next day.',
  },
  unknown: {
    sentence: 'undefined if there is no such upload.',
    advice: 'Let find() return undefined, and throw nothing.',
  },
  order: {
    sentence: 'Lists uploads, newest `receivedAt` first.',
    advice: 'Sort by receivedAt, then by uploadId, both descending (comparePositions), and end the last page with next: null.',
  },
  limit: {
    sentence: 'maximum number of uploads in the page, at least 1.',
    advice: 'End a page at its limit, with next at its last upload.',
  },
  filter: {
    sentence: 'Lists uploads, newest `receivedAt` first.',
    advice: 'Compare customerId and kind as they are; from is included, and to is excluded.',
  },
  after: {
    sentence: 'lists only uploads that follow this position.',
    advice: 'Begin behind the position in the order of the list. A position without an id comes before all ids of its time.',
  },
  page: {
    sentence: 'Memory for index lines is bounded by `limit`, `MAX_PAGE_BYTES`, the longest line and a constant.',
    advice: 'End a page after the line with which it has MAX_PAGE_BYTES.',
  },
  range: {
    sentence: 'the part to read, within the file; the whole file without it.',
    advice: 'Both offsets of a range are included.',
  },
  iterator: {
    sentence: 'A caller that stops early must end the iterator.',
    advice: "Release the file when the iterator's return() is called, and keep the readers of several files apart.",
  },
  length: {
    sentence: "The number of bytes is the file's length in the upload, or that of the range.",
    advice: 'Compare the length of the file with content.size of the upload, and throw storage-failure if there are fewer bytes. Never yield more.',
  },
  gone: {
    sentence: 'undefined if the file is missing, usually because the upload was removed in the meantime.',
    advice: 'Let openContent() return undefined before the first byte.',
  },
  durable: {
    sentence: 'Removes an upload: its index line, the bytes of its file and its idempotency key.',
    advice: 'Remove the line first and then the bytes, of this upload alone, and return true.',
  },
  key: {
    sentence: 'Removes an upload: its index line, the bytes of its file and its idempotency key.',
    advice: 'Forget the scope of the removed upload, in memory and in the store.',
  },
  atOnce: {
    sentence: 'Any number of calls may be in progress at once, and uploads may be stored meanwhile.',
    advice: 'Keep lines that are appended while a line is removed.',
  },
  absent: {
    sentence: 'false if there is no such upload, or if another call has just removed it.',
    advice: 'Let remove() return false, and change nothing.',
  },
  all: {
    sentence: 'Removes all uploads that a filter selects and that were stored before the call, as `remove` does.',
    advice: 'Select by the same rules as list(), and return the number of removed uploads.',
  },
  expired: {
    sentence: 'Removes the uploads that were received before a time, as `removeAll` does.',
    advice: 'Compare receivedAt with the time, to the millisecond, and not the day or the time in the id.',
  },
  dryRun: {
    sentence: 'Whether to count the uploads only, and remove nothing.',
    advice: 'Count in a dry run, report with onProgress, and remove nothing.',
  },
  signal: {
    sentence: "When this signal aborts, the call stops before its next step and rejects with the signal's reason.",
    advice: 'Call signal.throwIfAborted() before each step.',
  },
} as const satisfies Record<string, PortPromise>;

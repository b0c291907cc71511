import type { PortPromise } from './port-promise.js';

/** The promises of the port `Bucket` that `bucketContract` tests, and advice for adapters that break them. */
export const PROMISES = {
  create: {
    sentence: "Creates an object unless one with the same key exists. Resolves to the new object's version;",
    advice: 'Return the version that read() returns for the same object.',
  },
  taken: {
    sentence: 'to undefined if the key is taken, and then nothing was written.',
    advice: 'Let the store decide in one step (for example If-None-Match: *), not a read before the write.',
  },
  replace: {
    sentence: 'Writes an object. With `version`, writes only if the object at the key still has this version.',
    advice: 'Without a version, write without a condition, and return the new version.',
  },
  version: {
    sentence: 'the new version; undefined if nothing was written, because the object has another version or is missing.',
    advice: 'Let the store compare and write in one step (for example If-Match).',
  },
  upload: {
    sentence: 'Creates an object from bytes as they arrive, in parts, or in one request if all bytes fit into one part.',
    advice: 'Send the parts in order, also those that are empty or the last one, and remove nothing else.',
  },
  visible: {
    sentence: 'The object becomes visible when the bytes have ended.',
    advice: 'Complete the upload after the last byte. Parts must appear neither in read() nor in list().',
  },
  exists: {
    sentence: 'ObjectExistsError if the key is taken.',
    advice: 'Complete the upload only if the key is free (for example If-None-Match: *), and remove the parts otherwise.',
  },
  errors: {
    sentence: 'Rejects with the errors of `bytes`. After any failure, tries to remove the parts that were already sent.',
    advice: 'Let the error through unchanged, and abort the upload in the store before rejecting.',
  },
  missing: {
    sentence: 'Reads a small object; undefined if the object is missing.',
    advice: "Translate the store's error for a missing object, and that error alone.",
  },
  range: {
    sentence: "the bytes to read; the whole object if undefined. A range may go beyond the object's end: only the bytes that exist are read.",
    advice: 'Both offsets are included. A range behind the end is no error, but empty.',
  },
  iterator: {
    sentence: 'A caller that stops early must end the iterator.',
    advice: 'Destroy the answer of the store when return() is called, so that no connection stays busy.',
  },
  age: {
    sentence: "Milliseconds from the latest write of the object to the store's answer, by the store's clock.",
    advice: "Compute the age from the store's Date and Last-Modified, both in read() and in list().",
  },
  list: {
    sentence: 'Lists the objects whose keys begin with a prefix, in the byte order of their keys, page by page.',
    advice: 'Follow the continuation of each page, and end when the caller does.',
  },
  prefix: {
    sentence: 'Lists the objects whose keys begin with a prefix, in the byte order of their keys, page by page.',
    advice: 'Compare the prefix as text; it may end within a name.',
  },
  after: {
    sentence: 'Like `list`, but leaves out the objects whose keys are `after` or precede it in byte order, without requesting their names.',
    advice: 'Compare the keys as bytes, and follow the continuation of each page. `after` need not be the key of an object.',
  },
  directories: {
    sentence: 'Lists the directories directly below a prefix, each once, as keys that end with the first `/` after the prefix.',
    advice: "List with the store's delimiter `/`, and merge what two pages have in common.",
  },
  remove: {
    sentence: 'Removes objects. Objects that are already missing are no error.',
    advice: 'Divide long lists into what the store accepts in one call, and ignore missing objects.',
  },
  parts: {
    sentence: 'Removes the parts of all unfinished uploads to a key, whichever process began these uploads.',
    advice: 'Ask the store for unfinished uploads, and compare the whole key, not its beginning.',
  },
  rights: {
    sentence: 'Checks that the store permits the service to read, list and remove objects, and to list and remove parts of uploads.',
    advice: 'Try each on the given key or on one that is absent, and leave nothing behind.',
  },
  refused: {
    sentence: 'MissingRightError if the store refuses one of these operations.',
    advice: 'Ask the store for each operation, and wrap its refusals with missingRight().',
  },
  storeTime: {
    sentence: "The time by the store's clock, in milliseconds since 1970, according to the store's latest answer;",
    advice: "Note the store's Date in the answers to reads, listings and writes.",
  },
  clock: {
    sentence: "How many milliseconds the store's clock is ahead of this machine's, by the store's latest answer.",
    advice: "Compare the store's Date with this machine's time at the answer, through significantOffset().",
  },
  keys: {
    sentence: "Keys are relative to the bucket's prefix.",
    advice: 'Encode keys for URLs once, and decode those of listings, so that % and / stay as they are.',
  },
  prefixes: {
    sentence: "Keys are relative to the bucket's prefix.",
    advice: 'Put the whole prefix before each key, ending in /, and cut it from listed keys.',
  },
} as const satisfies Record<string, PortPromise>;

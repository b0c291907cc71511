import { APPEND, BARE_APPEND, BARE_STORE, MULTER, MULTER_FLUSH, SERVICE, SERVICE_LOGGING, SERVICE_SAMPLED, SERVICE_SILENT, SERVICE_TRACED, STREAMED_FILE } from './competitors.mjs';
import { bootOnce, HeldUploads } from './held-uploads.mjs';
import { files4KiB, form, form1GiB, json, jsonBesideLarge, raw1GiB } from './loads.mjs';

const held = new HeldUploads(1_000_000);

/**
 * The entrants of each contest, by the contest's name, with their load. Entrants are measured in alternation.
 *
 * `prepare` fills the data directory before a turn of the entrant. `keep` moves the data directory to another place
 * after the turn, before its parent directory is removed.
 */
export const CONTESTS = {
  'json-32': {
    service: { competitor: SERVICE, load: json(32) },
    bareStore: { competitor: BARE_STORE, load: json(32) },
    bareAppend: { competitor: BARE_APPEND, load: json(32) },
    multer: { competitor: MULTER, load: form(32) },
    multerFlush: { competitor: MULTER_FLUSH, load: form(32) },
  },
  'json-128': {
    service: { competitor: SERVICE, load: json(128) },
    logging: { competitor: SERVICE_LOGGING, load: json(128) },
    silent: { competitor: SERVICE_SILENT, load: json(128) },
    traced: { competitor: SERVICE_TRACED, load: json(128) },
    sampled: { competitor: SERVICE_SAMPLED, load: json(128) },
    bareStore: { competitor: BARE_STORE, load: json(128) },
    bareAppend: { competitor: BARE_APPEND, load: json(128) },
  },
  'json-1': {
    service: { competitor: SERVICE, load: json(1) },
    append: { competitor: APPEND, load: json(1) },
  },
  '1-gib': {
    raw: { competitor: SERVICE, load: raw1GiB },
    form: { competitor: SERVICE, load: form1GiB },
    streamed: { competitor: STREAMED_FILE, load: raw1GiB },
  },
  beside: {
    service: { competitor: SERVICE, load: jsonBesideLarge(8) },
    streamed: { competitor: STREAMED_FILE, load: jsonBesideLarge(8) },
  },
  'files-4-kib': {
    service: { competitor: SERVICE, load: files4KiB(32) },
    streamed: { competitor: STREAMED_FILE, load: files4KiB(32) },
  },
  held: {
    empty: { competitor: SERVICE, load: json(32), prepare: bootOnce },
    full: {
      competitor: SERVICE,
      load: json(32),
      prepare: (services, context) => held.prepare(services, context),
      keep: (services, context) => held.keep(services, context),
    },
  },
};

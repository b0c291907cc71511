import { fileURLToPath } from 'node:url';
import { SERVICE as ON_DISK } from '../uploads/competitors.mjs';
import { json, jsonWithPauses, raw1GiB } from '../uploads/loads.mjs';
import { jsonForAMinute, putObjects, silentClients } from './loads.mjs';

const PAUSE_MS = 5;
const program = (name) => fileURLToPath(new URL(`competitors/${name}.mjs`, import.meta.url));

const SERVICE = { ...ON_DISK, variables: { FILE_STORAGE: 's3' } };
const PUT_EACH = { title: 'same app, a PUT for each', program: program('put-each') };
const STREAMED_OBJECT = { title: "bare stream into the SDK's Upload", program: program('streamed-object') };
/** A competitor without a program that receives uploads: the client itself PUTs objects to the store. */
const DIRECT = { title: "the SDK's PutObject" };

/** The entrants of each contest, by the contest's name, with their load. Entrants are measured in alternation. */
export const CONTESTS = {
  'json-128': {
    service: { competitor: SERVICE, load: json(128) },
    putEach: { competitor: PUT_EACH, load: json(128) },
  },
  'json-128-pauses': {
    service: { competitor: SERVICE, load: jsonWithPauses(128, PAUSE_MS) },
    putEach: { competitor: PUT_EACH, load: jsonWithPauses(128, PAUSE_MS) },
  },
  'json-1': {
    service: { competitor: SERVICE, load: json(1) },
    direct: { competitor: DIRECT, load: putObjects },
  },
  '1-gib': {
    raw: { competitor: SERVICE, load: raw1GiB },
    streamed: { competitor: STREAMED_OBJECT, load: raw1GiB },
  },
  memory: {
    service: { competitor: SERVICE, load: jsonForAMinute },
  },
  silent: {
    service: { competitor: SERVICE, load: silentClients },
  },
};

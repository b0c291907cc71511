import { files4KiB, json, keyedFiles4KiB } from '../uploads/loads.mjs';

const CONNECTIONS = 64;
const LOADS = {
  json: { work: 'small JSON', load: json(CONNECTIONS) },
  files: { work: '4 KiB files', load: files4KiB(CONNECTIONS) },
  keyed: { work: '4 KiB files under a key', load: keyedFiles4KiB(CONNECTIONS) },
};

/** The rows of the bench: each load with 1, 2 and 4 replicas. */
export const ROWS = Object.entries(LOADS).flatMap(([name, load]) => [1, 2, 4].map((replicas) => ({ name: `${name}-${replicas}`, replicas, ...load })));

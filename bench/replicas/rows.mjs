import { files4KiB, json, keyedFiles4KiB } from '../uploads/loads.mjs';

const CONNECTIONS = 64;
const LOADS = {
  json: { work: 'small JSON', load: json(CONNECTIONS) },
  files: { work: '4 KiB files', load: files4KiB(CONNECTIONS) },
  keyed: { work: '4 KiB files under a key', load: keyedFiles4KiB(CONNECTIONS) },
};

const NEAR = Object.entries(LOADS).flatMap(([name, load]) => [1, 2, 4].map((replicas) => ({ name: `${name}-${replicas}`, replicas, delayMs: 0, ...load })));
const DISTANT = [20, 50].flatMap((delayMs) =>
  [1, 2].map((replicas) => ({ name: `json-${replicas}-${delayMs}ms`, replicas, delayMs, work: `small JSON, requests to the store delayed by ${delayMs} ms`, load: LOADS.json.load })),
);

/** The rows of the bench: each load with 1, 2 and 4 replicas, and small JSON with delayed requests to the store. */
export const ROWS = [...NEAR, ...DISTANT];

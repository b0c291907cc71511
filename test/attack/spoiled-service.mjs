// Preloaded into the service (`node --import`). Breaks the promise that SPOILED names, for the test of the rig.
import { randomUUID } from 'node:crypto';
import { Server } from 'node:http';
import { isMainThread } from 'node:worker_threads';

const DROPPED_OF = 20;
const REFUSING_MS = 8_000;
const PAUSE_EVERY_MS = 1_500;
const PAUSE_MS = 400;
let count = 0;

const answer = (request, response, status, body) => {
  request.resume().once('end', () => {
    response.writeHead(status, { 'Content-Type': 'application/json', 'X-Request-Id': randomUUID(), 'X-Upload-Id': randomUUID() });
    response.end(JSON.stringify(body));
  });
  return true;
};

/** Handlers that replace that of an upload. Each returns true if it answers the upload. */
const SPOILS = {
  'loses uploads': (request, response) => ++count % DROPPED_OF === 0 && answer(request, response, 200, { status: 'success', message: 'Data uploaded successfully.' }),
  'forgets keys': (request) => {
    delete request.headers['idempotency-key'];
  },
  'refuses while ready': (request, response) =>
    Math.floor(performance.now() / REFUSING_MS) % 2 === 1 && answer(request, response, 500, { error: 'Internal server error.' }),
  'stands still': () => false,
};

const spoil = SPOILS[process.env.SPOILED];
const { emit } = Server.prototype;
Server.prototype.emit = function (event, ...parameters) {
  if (event === 'request' && parameters[0].url.startsWith('/ingest') && spoil(...parameters)) return true;
  return emit.call(this, event, ...parameters);
};
if (isMainThread && process.env.SPOILED === 'stands still') {
  setInterval(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, PAUSE_MS), PAUSE_EVERY_MS).unref();
}

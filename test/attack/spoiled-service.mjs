// Preloaded into the service (`node --import`). Breaks promises of the service in the ways that the variable SPOILS
// names, to test whether the attack rig finds them.
import { randomUUID } from 'node:crypto';
import { appendFileSync, readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { Server } from 'node:http';
import { join } from 'node:path';
import { isMainThread } from 'node:worker_threads';
import { gunzipSync } from 'node:zlib';
import Database from 'libsql';

const PAUSE_EVERY_MS = 1_500;
const PAUSE_MS = 400;
const UPLOAD = '/ingest';
const CREATE = '/idpManagementBackend/create-';

const answer = (request, response, status, body) => {
  request.resume().once('end', () => {
    response.writeHead(status, { 'Content-Type': 'application/json', 'X-Request-Id': randomUUID(), 'X-Upload-Id': randomUUID() });
    response.end(JSON.stringify(body));
  });
  return true;
};

/**
 * Handles requests to paths with this beginning before the service does.
 *
 * @param {Function} handle returns true if it answers the request; otherwise the service handles it
 */
function before(path, handle) {
  const { emit } = Server.prototype;
  Server.prototype.emit = function (event, ...parameters) {
    if (event === 'request' && parameters[0].url.startsWith(path) && handle(...parameters)) return true;
    return emit.call(this, event, ...parameters);
  };
}

function afterwards(directory, change) {
  process.once('exit', () => {
    const entries = readdirSync(join(process.env.DATA_DIR, directory), { recursive: true, withFileTypes: true });
    const paths = entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name));
    change(paths.find((path) => statSync(path).size > 0));
  });
}

const SPOILS = {
  "doesn't start": () => process.exit(1),
  'loses uploads': () => before(UPLOAD, (...exchange) => answer(...exchange, 200, { status: 'success', message: 'Data uploaded successfully.' })),
  'stores a line twice': () => afterwards('uploads', (path) => appendFileSync(path, readFileSync(path, 'utf8').replace(/\n.*/s, '\n'))),
  'truncates a file': () => afterwards('files', (path) => truncateSync(path, statSync(path).size - 1)),
  'forgets keys': () =>
    before(UPLOAD, (request) => {
      delete request.headers['idempotency-key'];
    }),
  'refuses while ready': () => before(UPLOAD, (...exchange) => answer(...exchange, 500, { error: 'Internal server error.' })),
  'stands still': () => setInterval(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, PAUSE_MS), PAUSE_EVERY_MS).unref(),
  'parses whole bodies': () =>
    before(UPLOAD, (request) => {
      if (request.headers['content-encoding'] !== 'gzip') return;
      const chunks = [];
      const { push } = request;
      request.push = function (chunk, ...rest) {
        if (chunk) chunks.push(chunk);
        else JSON.parse(gunzipSync(Buffer.concat(chunks)));
        return push.call(this, chunk, ...rest);
      };
    }),
  'answers with unknown errors': () => before(UPLOAD, (...exchange) => answer(...exchange, 400, { error: 'x' })),
  'forgets users and roles': () => before(CREATE, (...exchange) => answer(...exchange, 201, { user_id: randomUUID(), role_id: randomUUID() })),
  'shares DATA_DIR': () => {
    const { exec } = Database.prototype;
    Database.prototype.exec = function (sql) {
      return exec.call(this, sql.replace('BEGIN EXCLUSIVE', 'BEGIN'));
    };
  },
  // The rig checks that nothing is written to the directory `outside`, which stands beside DATA_DIR.
  'writes outside DATA_DIR': () => writeFileSync('outside/stray.csv', ''),
};

if (isMainThread) for (const name of process.env.SPOILS.split(',')) SPOILS[name]();

// Node's own HTTP server in front of the service's store: what a small upload costs without everything between the two.
import { createServer } from 'node:http';
import { LocalDiskFileStorage } from '../../../dist/ingestion/adapters/out/local-disk/local-disk.file-storage.adapter.js';
import { uuidAt } from '../../../dist/common/uuid.js';
import { listen } from './listen.mjs';
import { answerSmallJson } from './small-json.mjs';

const storage = await LocalDiskFileStorage.open({ directory: process.env.DATA_DIR });

function store(additionalData) {
  const beganAt = new Date();
  const uploadId = uuidAt(beganAt);
  const kind = 'historical';
  const upload = { uploadId, kind, customerId: 'acme-energy', filename: 'load.csv', manufacturer: 'acme', idempotencyKey: null, additionalData, receivedAt: beganAt, content: null };
  return storage.store({ uploadId, kind, idempotencyScope: null, content: null, conclude: () => Promise.resolve(upload) });
}

listen(createServer(answerSmallJson(store)));
process.once('SIGTERM', () => storage.onApplicationShutdown().finally(() => process.exit()));

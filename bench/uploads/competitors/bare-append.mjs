// Node's own HTTP server in front of one file, to which the lines of all waiting uploads are appended by one write and
// one fdatasync.
import { mkdir, open } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { uuidAt } from '../../../dist/common/uuid.js';
import { listen } from './listen.mjs';
import { answerSmallJson } from './small-json.mjs';

await mkdir(process.env.DATA_DIR, { recursive: true });
const file = await open(join(process.env.DATA_DIR, 'lines.ndjson'), 'a');
let waiting = [];
let isFlushing = false;

async function flush() {
  isFlushing = true;
  while (waiting.length > 0) {
    const batch = waiting;
    waiting = [];
    try {
      await file.write(batch.map(({ line }) => line).join(''));
      await file.datasync();
      for (const { resolve } of batch) resolve();
    } catch (error) {
      for (const { reject } of batch) reject(error);
    }
  }
  isFlushing = false;
}

function store(additionalData) {
  const line = `${JSON.stringify({
    upload_id: uuidAt(new Date()),
    kind: 'historical',
    customer_id: 'acme-energy',
    filename: 'load.csv',
    manufacturer: 'acme',
    additional_data: additionalData,
    received_at: new Date().toISOString(),
    content_path: null,
    content_type: null,
    content_size: null,
    content_sha256: null,
  })}\n`;
  return new Promise((resolve, reject) => {
    waiting.push({ line, resolve, reject });
    if (!isFlushing) void flush();
  });
}

listen(createServer(answerSmallJson(store)));

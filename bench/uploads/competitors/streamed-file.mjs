// A program that receives uploads with Node's own HTTP server, and streams each body into a file: the minimum that
// makes a file durable. It computes no hash.
import { randomUUID } from 'node:crypto';
import { createWriteStream, mkdirSync } from 'node:fs';
import { open, rename } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { listen } from './listen.mjs';

const staging = join(process.env.DATA_DIR, 'staging');
const files = join(process.env.DATA_DIR, 'files');
for (const directory of [staging, files]) mkdirSync(directory, { recursive: true });

async function keep(request) {
  const name = randomUUID();
  // `flush` means an fsync before the file is closed.
  await pipeline(request, createWriteStream(join(staging, name), { flags: 'wx', flush: true }));
  await rename(join(staging, name), join(files, name));
  const directory = await open(files);
  await directory.sync();
  await directory.close();
}

const server = createServer((request, response) => {
  keep(request).then(
    () => response.end('{"status":"success","message":"Data uploaded successfully."}'),
    (error) => {
      console.error(error);
      response.writeHead(500).end();
    },
  );
});
listen(server);

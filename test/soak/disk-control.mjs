// A bare HTTP server, whose latencies show how fast the machine and its disk are. It answers a GET after reading a file
// of a few KiB, and a POST after appending its body to a file and syncing that, both in the working directory.
import { randomBytes } from 'node:crypto';
import { open, readFile, writeFile } from 'node:fs/promises';
import { answerSmallJson } from '../../bench/uploads/competitors/small-json.mjs';
import { listenAsControl } from './listen-as-control.mjs';

const READ = 'control-read';
await writeFile(READ, randomBytes(2 * 1024).toString('hex'));
const file = await open('control.ndjson', 'a');

listenAsControl({
  read: () => readFile(READ),
  write: answerSmallJson(async (additionalData) => {
    await file.write(`${JSON.stringify({ additional_data: additionalData })}\n`);
    await file.datasync();
  }),
});

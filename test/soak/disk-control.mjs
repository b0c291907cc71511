// A bare HTTP server, whose latencies show how fast the machine and its disk are. It answers `GET /stored` after reading
// a file of a few KiB, and `POST /stored` after appending its body to a file and syncing that.
import { randomBytes } from 'node:crypto';
import { open, readFile, writeFile } from 'node:fs/promises';
import { answerSmallJson } from '../../bench/uploads/competitors/small-json.mjs';
import { listenAsControl } from './listen-as-control.mjs';

const STORED = 'control-stored';
await writeFile(STORED, randomBytes(2 * 1024).toString('hex'));
const file = await open('control.ndjson', 'a');

listenAsControl({
  fetch: () => readFile(STORED),
  write: answerSmallJson(async (additionalData) => {
    await file.write(`${JSON.stringify({ additional_data: additionalData })}\n`);
    await file.datasync();
  }),
});

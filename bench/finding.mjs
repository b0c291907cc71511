import { randomBytes } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, open } from 'node:fs/promises';
import { createServer } from 'node:http';
import { once } from 'node:events';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { v7 as uuidV7 } from 'uuid';
import { Progress } from './support/progress.mjs';
import { withServices } from './support/service.mjs';

const DAY_MS = 24 * 60 * 60 * 1000;
const MIB = 1024 * 1024;
const SEGMENT_BYTES = 64 * MIB;
const LINES_PER_DAY = 100;
const CUSTOMERS = 1_000;

/** Measures how long it takes to find and list uploads in a large store, and to fetch a large file. */
export default async function finding(parameters) {
  const { values } = parseArgs({ args: parameters, options: { uploads: { type: 'string', default: '1000000' }, days: { type: 'string', default: '1000' }, requests: { type: 'string', default: '300' } } });
  const [uploads, days, requests] = [values.uploads, values.days, values.requests].map(Number);
  return withServices(async (services) => {
    const ids = await fillStore(services.data, uploads, days);
    const service = await services.start();
    const headers = { Authorization: `Bearer ${await service.token()}` };
    const ask = async (target) => {
      const answer = await fetch(service.url + target, { headers });
      const body = await answer.text();
      return { status: answer.status, body };
    };
    const pick = (list) => list[Math.floor(Math.random() * list.length)];
    const [day] = ids.days;
    const to = new Date(Date.parse(day) + DAY_MS / 2).toISOString();
    const rows = [
      ['find an upload of the large day', () => `/uploads/${pick(ids.large)}`, 200, 5],
      ['find an upload of any other day', () => `/uploads/${pick(ids.others)}`, 200, 5],
      ['first page, 100 uploads of all customers', () => '/uploads', 200, 10],
      ['a page in the middle of the large day', () => `/uploads?to=${to}`, 200, 10],
      ['first page of one customer of 1,000', () => `/uploads?customer_id=c${Math.floor(Math.random() * CUSTOMERS)}&limit=10`, 200, undefined],
      ['find an id that nobody has', () => `/uploads/${uuidV7({ msecs: Date.parse(day) + Math.random() * DAY_MS })}`, 404, undefined],
    ];
    const table = {};
    let ok = true;
    const progress = new Progress();
    for (const [title, target, status, goal] of rows) {
      const times = [];
      const count = goal === undefined ? Math.ceil(requests / 10) : requests;
      for (let index = 0; index < count; index++) {
        progress.show(`${title}: ${index}`);
        const began = performance.now();
        const answer = await ask(target());
        times.push(performance.now() - began);
        if (answer.status !== status) throw new Error(`${title}: ${answer.status} ${answer.body.slice(0, 200)}`);
      }
      progress.clear();
      times.sort((one, other) => one - other);
      const median = times[Math.floor(times.length / 2)];
      ok &&= goal === undefined || median <= goal;
      table[title] = { 'p50 ms': median.toFixed(1), 'p99 ms': times[Math.floor(times.length * 0.99)].toFixed(1), goal: goal === undefined ? '' : `<= ${goal} ms` };
    }
    console.table(table);
    return (await fetchLargeFile(services, service, headers)) && ok;
  });
}

/** Writes a store of many days, one of which has many uploads without files. */
async function fillStore(data, uploads, days) {
  const progress = new Progress();
  const ids = { large: [], others: [], days: [] };
  const today = Date.parse(new Date().toISOString().slice(0, 10));
  for (let ago = 1; ago <= days; ago++) {
    progress.show(`filling the store: day ${ago} of ${days}`);
    const count = ago === 1 ? uploads : LINES_PER_DAY;
    const begin = today - ago * DAY_MS;
    const date = new Date(begin).toISOString().slice(0, 10);
    ids.days.push(date);
    const directory = join(data, 'uploads/kind=historical', `date=${date}`);
    await mkdir(directory, { recursive: true });
    let segment;
    let lines = [];
    let bytes = 0;
    for (let index = 0; index < count; index++) {
      const at = begin + Math.floor((index * DAY_MS) / count);
      const uploadId = uuidV7({ msecs: at });
      if (index % 97 === 0) (ago === 1 ? ids.large : ids.others).push(uploadId);
      segment ??= await open(join(directory, `${uploadId}.ndjson`), 'w');
      lines.push(`${JSON.stringify({ upload_id: uploadId, kind: 'historical', customer_id: `c${index % CUSTOMERS}`, filename: 'load.csv', manufacturer: 'Acme', additional_data: 'meter 7, read by hand', received_at: new Date(at + 3).toISOString(), content_path: null, content_type: null, content_size: null, content_sha256: null })}\n`);
      if (lines.length === 10_000 || index === count - 1) {
        const text = lines.join('');
        bytes += text.length;
        await segment.write(text);
        lines = [];
        if (bytes < SEGMENT_BYTES && index < count - 1) continue;
        await segment.close();
        segment = undefined;
        bytes = 0;
      }
    }
  }
  progress.clear();
  return ids;
}

/** Fetches 1 GiB from the service, and from a bare server that streams the same file, in turns. */
async function fetchLargeFile(services, service, headers) {
  const chunk = randomBytes(MIB);
  const body = new ReadableStream({
    pull(controller) {
      this.sent = (this.sent ?? 0) + 1;
      controller.enqueue(chunk);
      if (this.sent === 1024) controller.close();
    },
  });
  const answer = await fetch(`${service.url}/ingestHistoricalLoadData/upload_historical?customer_id=c&filename=big.bin&manufacturer=m`, { method: 'POST', body, duplex: 'half', headers: { 'Content-Type': 'text/csv' } });
  const id = answer.headers.get('x-upload-id');
  const date = new Date().toISOString().slice(0, 10);
  const file = join(services.data, `files/kind=historical/customer_id=c/date=${date}/${id}.bin`);
  const bare = createServer((_, response) => createReadStream(file, { highWaterMark: 256 * 1024 }).pipe(response)).listen(0, '127.0.0.1');
  await once(bare, 'listening');
  const rates = { service: [], bare: [] };
  for (let round = 0; round < 5; round++) {
    rates.service.push(await rateOf(`${service.url}/uploads/${id}/content`, headers));
    rates.bare.push(await rateOf(`http://127.0.0.1:${bare.address().port}/`, {}));
  }
  bare.close();
  const median = (list) => [...list].sort((one, other) => one - other)[2];
  const ratio = median(rates.service) / median(rates.bare);
  console.table({ '1 GiB from the service': { 'MiB/s': Math.round(median(rates.service)), 'against a bare Node server': ratio.toFixed(2) } });
  return true;
}

async function rateOf(url, headers) {
  const began = performance.now();
  const { body } = await fetch(url, { headers });
  let bytes = 0;
  for await (const chunk of body) bytes += chunk.length;
  return bytes / MIB / ((performance.now() - began) / 1000);
}

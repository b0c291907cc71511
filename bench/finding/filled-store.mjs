import { mkdir, open } from 'node:fs/promises';
import { join } from 'node:path';
import { v7 as uuidV7 } from 'uuid';
import { Progress } from '../support/progress.mjs';

export const DAY_MS = 24 * 60 * 60 * 1000;
export const CUSTOMERS = 1_000;
const SEGMENT_BYTES = 64 * 1024 * 1024;
export const LINES_PER_DAY = 100;

/**
 * Writes a data directory with the index lines of uploads of many past days: far more uploads for yesterday than for
 * any other day. The uploads have no files.
 *
 * @param {string} data the data directory.
 * @param {{ uploads: number, days: number, customerOf?: (index: number) => string }} shape `uploads`: the number of
 *   uploads of yesterday. `days`: the number of days. `customerOf`: the customer of the upload with an index within its
 *   day.
 * @returns {Promise<{ large: string[], others: string[], day: string }>} the ids of some uploads of yesterday (`large`)
 *   and of some uploads of the other days (`others`), and yesterday's date (`day`).
 */
export async function fillStore(data, { uploads, days, customerOf = (index) => `c${index % CUSTOMERS}` }) {
  const progress = new Progress();
  const ids = { large: [], others: [] };
  const today = Date.parse(new Date().toISOString().slice(0, 10));
  for (let ago = 1; ago <= days; ago++) {
    progress.show(`filling the store: day ${ago} of ${days}`);
    const kept = await fillDay(data, today - ago * DAY_MS, ago === 1 ? uploads : LINES_PER_DAY, customerOf);
    ids[ago === 1 ? 'large' : 'others'].push(...kept);
  }
  progress.clear();
  return { ...ids, day: new Date(today - DAY_MS).toISOString().slice(0, 10) };
}

async function fillDay(data, begin, count, customerOf) {
  const directory = join(data, 'uploads/kind=historical', `date=${new Date(begin).toISOString().slice(0, 10)}`);
  await mkdir(directory, { recursive: true });
  const ids = [];
  let segment;
  let lines = [];
  let bytes = 0;
  for (let index = 0; index < count; index++) {
    const at = begin + Math.floor((index * DAY_MS) / count);
    const uploadId = uuidV7({ msecs: at });
    if (index % 97 === 0) ids.push(uploadId);
    segment ??= await open(join(directory, `${uploadId}.ndjson`), 'w');
    lines.push(lineOf(uploadId, at, customerOf(index)));
    if (lines.length < 10_000 && index < count - 1) continue;
    const text = lines.join('');
    lines = [];
    bytes += text.length;
    await segment.write(text);
    if (bytes < SEGMENT_BYTES && index < count - 1) continue;
    await segment.close();
    segment = undefined;
    bytes = 0;
  }
  return ids;
}

function lineOf(uploadId, at, customerId) {
  const line = {
    upload_id: uploadId,
    kind: 'historical',
    customer_id: customerId,
    filename: 'load.csv',
    manufacturer: 'Acme',
    additional_data: 'meter 7, read by hand',
    received_at: new Date(at + 3).toISOString(),
    content_path: null,
    content_type: null,
    content_size: null,
    content_sha256: null,
  };
  return `${JSON.stringify(line)}\n`;
}

import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { pipeline } from 'node:stream/promises';

const LINE_END = 0x0a;

/**
 * Lists the files below a folder of a data directory, as paths relative to that directory. None if there is no folder.
 */
export async function filesIn(data, folder) {
  const entries = await entriesOf(join(data, folder), { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map((entry) => relative(data, join(entry.parentPath, entry.name)));
}

/**
 * Reads the uploads in a data directory, or in the directory of a bucket, directly from its files, while nothing is in
 * progress. Returns the index lines by upload id (`lines`), a sentence about each upload with several index lines
 * (`doubled`), and a sentence about everything that is incomplete or left over (`halves`).
 */
export async function inspect(data) {
  const lines = new Map();
  const doubled = [];
  const halves = [];
  // Each `additional_data` is held once, because many uploads may have the same long text.
  const texts = new Map();
  for (const segment of await filesIn(data, 'uploads')) {
    for await (const { text, isTorn } of linesOf(join(data, segment))) {
      const line = parse(text);
      if (isTorn) halves.push(`${segment} ends in a torn line`);
      else if (!line) halves.push(`${segment} has a line that is not JSON`);
      else if (lines.has(line.upload_id)) doubled.push(`${line.upload_id} has two lines`);
      else {
        const { additional_data: added } = line;
        if (!texts.has(added)) texts.set(added, added);
        lines.set(line.upload_id, { ...line, additional_data: texts.get(added) });
      }
    }
  }
  const files = new Set(await filesIn(data, 'files'));
  for (const line of lines.values()) {
    if (line.content_path === null) continue;
    if (!files.delete(line.content_path)) halves.push(`${line.upload_id} has a line but no bytes`);
    else if (!(await hasBytes(data, line))) halves.push(`${line.upload_id} has a line but other bytes`);
  }
  for (const file of files) halves.push(`${file} has no line`);
  for (const path of await leftovers(data)) halves.push(`${path} is left over`);
  return { lines, doubled, halves };
}

/** The lines of a file, which may be longer than the longest string. The last line is torn if it has no line end. */
async function* linesOf(path) {
  let begun = [];
  for await (const chunk of createReadStream(path)) {
    let from = 0;
    for (let end = chunk.indexOf(LINE_END); end >= 0; end = chunk.indexOf(LINE_END, from)) {
      yield { text: Buffer.concat([...begun, chunk.subarray(from, end)]).toString(), isTorn: false };
      begun = [];
      from = end + 1;
    }
    if (from < chunk.length) begun.push(chunk.subarray(from));
  }
  if (begun.length > 0) yield { text: '', isTorn: true };
}

/**
 * Paths of what uploads in progress, or a crash, have left in `staging/` and `pending/`. In a bucket, the marker of a
 * failed upload stays for a while after everything else of that upload was removed, in case the store carries out a
 * request late. Such a marker isn't included.
 */
export async function leftovers(data) {
  const found = [];
  for (const folder of ['staging', 'pending']) {
    for (const name of await entriesOf(join(data, folder))) {
      if (!(await isClearedMarker(join(data, folder, name)))) found.push(`${folder}/${name}`);
    }
  }
  return found;
}

const isClearedMarker = async (path) => parse(await readFile(path, 'utf8').catch(() => ''))?.cleared === true;

/** The entries of a directory. None if it doesn't exist: a bucket has only the folders that contain objects. */
async function entriesOf(directory, options) {
  try {
    return await readdir(directory, options);
  } catch (error) {
    if (error.code !== 'ENOENT') throw error;
    return [];
  }
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

async function hasBytes(data, line) {
  const hash = createHash('sha256');
  const file = createReadStream(join(data, line.content_path));
  await pipeline(file, hash);
  return file.bytesRead === line.content_size && hash.digest('hex') === line.content_sha256;
}

import { createHash, randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { link, mkdir, open, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { Bucket, ObjectExistsError } from 'load-data-service';

const isAbsent = (error) => error.code === 'ENOENT' || error.code === 'ENOTDIR';
const versionOf = (bytes) => createHash('sha256').update(bytes).digest('hex');

/** An object store in a folder, for one process: each object is a file, and each unfinished upload one in `parts`. */
export class FolderBucket extends Bucket {
  /** The latest replacement of each key. The next replacement of that key waits for it before it compares versions. */
  replacements = new Map();
  clockOffsetMs = 0;

  constructor(folder, prefix = '') {
    super();
    this.objects = join(folder, 'objects', prefix);
    this.parts = join(folder, 'parts', prefix);
  }

  get storeTime() {
    return Date.now();
  }

  async create(key, bytes) {
    const isNew = await this.upload(key, [bytes]).then(
      () => true,
      (error) => {
        if (error instanceof ObjectExistsError) return false;
        throw error;
      },
    );
    return isNew ? versionOf(bytes) : undefined;
  }

  async replace(key, bytes, version) {
    const replacement = (this.replacements.get(key) ?? Promise.resolve()).then(async () => {
      if (version !== undefined && (await this.read(key))?.version !== version) return undefined;
      const part = await this.write(key, [bytes]);
      await mkdir(dirname(join(this.objects, key)), { recursive: true });
      await rename(part, join(this.objects, key));
      return versionOf(bytes);
    });
    this.replacements.set(key, replacement.catch(() => undefined));
    return replacement;
  }

  async upload(key, bytes) {
    const part = await this.write(key, bytes);
    try {
      await mkdir(dirname(join(this.objects, key)), { recursive: true });
      // A link is created only if its name is free.
      await link(part, join(this.objects, key)).catch((error) => {
        throw error.code === 'EEXIST' ? new ObjectExistsError(key) : error;
      });
    } finally {
      await rm(part);
    }
  }

  async read(key) {
    const object = await this.look(key);
    if (!object) return undefined;
    const bytes = await readFile(join(this.objects, key));
    return { bytes, version: versionOf(bytes), ageMs: object.ageMs };
  }

  async open(key, range) {
    const object = await this.look(key);
    if (!object) return undefined;
    if (range && range.first >= object.size) return Readable.from([]);
    return createReadStream(join(this.objects, key), range && { start: range.first, end: range.last });
  }

  async *list(prefix) {
    const folder = prefix.slice(0, prefix.lastIndexOf('/') + 1);
    const entries = await readdir(join(this.objects, folder), { recursive: true, withFileTypes: true }).catch((error) => {
      if (isAbsent(error)) return [];
      throw error;
    });
    const keys = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name).slice(this.objects.replace(/\/$/, '').length + 1));
    const sorted = keys.filter((key) => key.startsWith(prefix)).sort((one, other) => Buffer.compare(Buffer.from(one), Buffer.from(other)));
    for (const key of sorted) {
      const object = await this.look(key);
      if (object) yield { key, ...object };
    }
  }

  async *listDirectories(prefix) {
    const directories = new Set();
    for await (const { key } of this.list(prefix)) {
      const end = key.indexOf('/', prefix.length);
      if (end >= 0) directories.add(key.slice(0, end + 1));
    }
    yield* directories;
  }

  async remove(keys) {
    for (const key of keys) await rm(join(this.objects, key), { force: true });
  }

  async removeParts(key) {
    for (const part of await this.partsOf(key)) await rm(part, { force: true });
  }

  async checkRights(key) {
    await this.read(key);
    await this.partsOf(key);
    await this.remove([key]);
  }

  close() {
    // There are no connections.
  }

  /** The paths of the unfinished uploads to a key. */
  async partsOf(key) {
    const names = await readdir(this.parts).catch(() => []);
    return names.filter((name) => name.startsWith(`${versionOf(key)}.`)).map((name) => join(this.parts, name));
  }

  /** Writes the bytes of an upload to a new file in `parts` as they arrive. Removes the file if they break off. */
  async write(key, bytes) {
    const part = join(this.parts, `${versionOf(key)}.${randomUUID()}`);
    await mkdir(this.parts, { recursive: true });
    const file = await open(part, 'wx');
    try {
      for await (const chunk of bytes) await file.writeFile(chunk);
      await file.sync();
    } catch (error) {
      await rm(part);
      throw error;
    } finally {
      await file.close();
    }
    return part;
  }

  async look(key) {
    const found = await stat(join(this.objects, key)).catch((error) => {
      if (isAbsent(error)) return undefined;
      throw error;
    });
    return found?.isFile() ? { size: found.size, ageMs: Math.max(0, Date.now() - found.mtimeMs) } : undefined;
  }
}

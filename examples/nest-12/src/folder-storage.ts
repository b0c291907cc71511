import { createHash } from 'node:crypto';
import { mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import {
  FileStorage,
  indexLine,
  parseIndexLine,
  receiptOf,
  requestIdentity,
  idempotencyScope,
  ServiceError,
  type StoredContent,
  type Upload,
  type UploadDraft,
  type UploadReceipt,
} from 'load-data-service';

const DAY_MS = 24 * 60 * 60 * 1000;

/**
 * A store in one folder: `uploads.ndjson` with one line for each upload, and its file under `files/`. For one process,
 * and as many uploads as fit into memory as lines.
 */
export class FolderStorage extends FileStorage {
  private readonly inProgress = new Set<string>();
  private appending: Promise<unknown> = Promise.resolve();

  private constructor(
    private readonly folder: string,
    private readonly keyed: Map<string, Upload>,
  ) {
    super();
  }

  /** Opens the folder, and removes what a crash left: a torn last line, and files without a line. */
  static async open(folder: string): Promise<FolderStorage> {
    await mkdir(join(folder, 'files'), { recursive: true });
    await rm(join(folder, 'incoming'), { recursive: true, force: true });
    await mkdir(join(folder, 'incoming'));
    const file = await open(join(folder, 'uploads.ndjson'), 'a+');
    const text = await file.readFile('utf8');
    const whole = text.slice(0, text.lastIndexOf('\n') + 1);
    await file.truncate(Buffer.byteLength(whole));
    await file.sync();
    await file.close();
    const uploads = whole.split('\n').flatMap((line) => parseIndexLine(line) ?? []);
    const paths = new Set(uploads.map(({ content }) => content?.path));
    for (const entry of await readdir(join(folder, 'files'), { recursive: true, withFileTypes: true })) {
      const path = join(entry.parentPath, entry.name);
      if (entry.isFile() && !paths.has(path.slice(folder.length + 1))) await rm(path);
    }
    return new FolderStorage(folder, new Map(uploads.map((upload) => [idempotencyScope(upload) ?? upload.uploadId, upload])));
  }

  override async store(draft: UploadDraft): Promise<UploadReceipt> {
    const scope = draft.idempotencyScope;
    if (scope !== null && this.inProgress.has(scope)) throw new ServiceError('request-in-progress', 'The key is in use.', { retryAfterSeconds: 1 });
    if (scope !== null) this.inProgress.add(scope);
    const incoming = join(this.folder, 'incoming', draft.uploadId);
    try {
      const stored = draft.content && (await receive(draft.content.bytes, incoming));
      const upload = await draft.conclude(stored);
      const first = scope === null ? undefined : this.keyed.get(scope);
      if (first && Date.now() - first.receivedAt.getTime() < DAY_MS) {
        if (requestIdentity(first) !== requestIdentity(upload)) throw new ServiceError('idempotency-key-reused');
        return { ...receiptOf(first), replayed: true };
      }
      await orStorageFailure(this.publish(upload, incoming));
      if (scope !== null) this.keyed.set(scope, upload);
      return receiptOf(upload);
    } finally {
      if (scope !== null) this.inProgress.delete(scope);
      await rm(incoming, { force: true });
    }
  }

  override async checkHealth(): Promise<void> {
    const probe = join(this.folder, 'incoming', `health-${String(process.hrtime.bigint())}`);
    await orStorageFailure((await open(probe, 'wx')).close());
    await rm(probe);
  }

  /** Makes the file visible, then the line. A crash between both leaves a file without a line, which `open` removes. */
  private async publish(upload: Upload, incoming: string): Promise<void> {
    if (upload.content) {
      const path = join(this.folder, upload.content.path);
      await mkdir(dirname(path), { recursive: true });
      await rename(incoming, path);
      for (let parent = dirname(path); parent !== dirname(this.folder); parent = dirname(parent)) await syncAt(parent);
    }
    const appended = this.appending.then(() => this.append(`${indexLine(upload)}\n`));
    this.appending = appended.catch(() => undefined);
    await appended;
  }

  private async append(line: string): Promise<void> {
    const file = await open(join(this.folder, 'uploads.ndjson'), 'a');
    try {
      const { size } = await file.stat();
      try {
        await file.appendFile(line);
        await file.sync();
      } catch (error) {
        await file.truncate(size);
        throw error;
      }
    } finally {
      await file.close();
    }
  }
}

/** Writes bytes as they arrive. Errors of `bytes` stay as they are; those of the disk become storage failures. */
async function receive(bytes: AsyncIterable<Uint8Array>, path: string): Promise<StoredContent> {
  const hash = createHash('sha256');
  let size = 0;
  const file = await orStorageFailure(open(path, 'wx'));
  try {
    for await (const chunk of bytes) {
      hash.update(chunk);
      size += chunk.length;
      await orStorageFailure(file.writeFile(chunk));
    }
    await orStorageFailure(file.sync());
  } finally {
    await file.close();
  }
  return { size, sha256: hash.digest('hex') };
}

async function syncAt(directory: string): Promise<void> {
  const handle = await open(directory);
  await handle.sync().finally(() => handle.close());
}

const orStorageFailure = <Result>(work: Promise<Result>): Promise<Result> =>
  work.catch((cause: unknown) => {
    throw new ServiceError('storage-failure', 'The folder failed.', { cause });
  });

/** The lines and files of a folder, for tests. */
export async function contentsOf(folder: string): Promise<{ lines: object[]; paths: string[] }> {
  const text = await readFile(join(folder, 'uploads.ndjson'), 'utf8');
  const entries = await readdir(join(folder, 'files'), { recursive: true, withFileTypes: true });
  return {
    lines: text.split('\n').filter(Boolean).map((line) => JSON.parse(line) as object),
    paths: entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1)),
  };
}

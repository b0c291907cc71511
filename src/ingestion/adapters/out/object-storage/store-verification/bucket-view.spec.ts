import { createHash } from 'node:crypto';
import { dirname } from 'node:path';
import { v7 as uuidV7 } from 'uuid';
import { beforeEach, describe, expect, it } from 'vitest';
import { timeOfUuid } from '../../../../../common/uuid.js';
import { HOUR_MS } from '../../../../../common/durations.js';
import { InMemoryBucket } from '../../../../../testing/in-memory.bucket.js';
import { anUploadDraft } from '../../../../../testing/upload-draft.builder.js';
import { idempotencyScope } from '../../../../domain/idempotency.js';
import { indexLine, segmentDirectory } from '../../../../domain/layout.js';
import type { Upload } from '../../../../domain/upload.js';
import { jsonReport } from '../../../../application/store-verification/report.js';
import { NoStoreError } from '../../../../application/store-verification/store-view.js';
import type { ListedObject } from '../bucket.js';
import { claimKey } from '../keys.js';
import type { ByteRange } from '../bucket.js';
import { verifyBucket } from './bucket-view.js';

const TIME = new Date('2026-03-01T10:00:00Z');
const DAY = 'uploads/kind=historical/date=2026-03-01';
const FILES = 'files/kind=historical/customer_id=customer-1/date=2026-03-01';
const BYTES = 'day,load\n1,2\n';
const drafts = anUploadDraft().with({ receivedAt: TIME });

type FileUpload = Upload & { content: NonNullable<Upload['content']> };

let bucket: InMemoryBucket;
/**
 * The same bucket, as used by other services during the verification. Hooks of `bucket` aren't called for their
 * operations.
 */
let others: InMemoryBucket;
/**
 * `file` is an upload with a file, and `segment` the key of the segment with only its line. The segment with the key
 * `shared` has the lines of two uploads without a file.
 */
let file: FileUpload;
let segment: string;
let shared: string;

beforeEach(async () => {
  bucket = new InMemoryBucket();
  others = bucket.another();
  file = await aFile();
  segment = `${DAY}/${file.uploadId}.ndjson`;
  await others.create(file.content.path, Buffer.from(BYTES));
  await writeSegment(segment, file);
  shared = await writeSegment(`${DAY}/${uuidV7()}.ndjson`, await aJson(), await aJson());
});

async function aFile(bytes = BYTES): Promise<FileUpload> {
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  return (await drafts.file(bytes).build().conclude({ size: bytes.length, sha256 })) as FileUpload;
}

const aJson = (): Promise<Upload> => drafts.with({ additionalData: 'x' }).build().conclude(null);

async function writeSegment(key: string, ...uploads: Upload[]): Promise<string> {
  await others.replace(key, Buffer.from(uploads.map((upload) => `${indexLine(upload)}\n`).join('')));
  return key;
}

async function append(key: string, text: string | Buffer): Promise<void> {
  await others.replace(key, Buffer.concat([(await others.read(key))?.bytes ?? Buffer.alloc(0), Buffer.from(text as string)]));
}

async function copy(from: string, to: string): Promise<void> {
  await others.replace(to, (await others.read(from))?.bytes ?? Buffer.alloc(0));
}

const mark = (contentPath: string, uploadId: string): Promise<unknown> =>
  others.replace(`staging/${uploadId}`, Buffer.from(JSON.stringify({ content_path: contentPath, segment: `${DAY}/${uploadId}.ndjson` })));

/** Writes the marker of uploads that share a segment. */
const markShared = (contentPaths: readonly string[], segmentId: string): Promise<unknown> =>
  others.replace(`staging/${segmentId}.ndjson`, Buffer.from(JSON.stringify({ content_paths: contentPaths, segment: `${DAY}/${segmentId}.ndjson` })));

async function found(options: { uploadsPerPass?: number } = {}, verified = bucket) {
  const verification = verifyBucket(verified, options);
  const findings = [];
  for await (const finding of verification) findings.push(finding);
  return { findings, totals: verification.totals };
}

/** The findings, as `<state> <kind> <path>`. */
async function shown(options: { uploadsPerPass?: number } = {}): Promise<string[]> {
  return (await found(options)).findings.map(({ state, kind, path }) => `${state} ${kind} ${path}`).sort();
}

describe('a bucket at rest', () => {
  it('has no defects, and is counted', async () => {
    expect(await found()).toEqual({ findings: [], totals: { uploads: 3, files: 1, bytes: 13, defects: 0, underWay: 0, unknown: 0 } });
  });

  it.each<[string, () => Promise<unknown>]>([
    ['fences', () => others.create(`${DAY}/${uuidV7()}.ndjson`, Buffer.alloc(0))],
    ['empty objects in place of directories', () => Promise.all(['uploads/', 'uploads/kind=historical', `${DAY}/`, 'files/kind=historical/', FILES].map((key) => others.create(key, Buffer.alloc(0))))],
    ['objects of others outside the layout', () => Promise.all(['idempotency/x', 'uploads-2/x', 'readme'].map((key) => others.create(key, Buffer.from('x'))))],
    ['a file without bytes', async () => {
      const empty = await aFile('');
      await others.create(empty.content.path, Buffer.alloc(0));
      await writeSegment(`${DAY}/${empty.uploadId}.ndjson`, empty);
    }],
  ])('may have %s', async (_, add) => {
    await add();
    expect(await shown()).toEqual([]);
  });

  it('is not changed by verification', async () => {
    await mark(file.content.path, file.uploadId);
    const operations = new Set<string>();
    bucket.before = (operation) => void operations.add(operation);
    await found();
    expect([...operations].sort()).toEqual(['list', 'open', 'read']);
  });

  it.each([[undefined], ['staging/x'], ['idempotency/x']])('is not a store when uploads/ and files/ are empty (other contents: %s)', async (key) => {
    const empty = new InMemoryBucket();
    if (key !== undefined) await empty.create(key, Buffer.from('x'));
    await expect(found({}, empty)).rejects.toThrow(NoStoreError);
  });
});

describe('each defect is found, and nothing else', () => {
  const id = uuidV7();

  it.each<[string, () => Promise<unknown>, () => string[]]>([
    ['missing bytes', () => others.remove([file.content.path]), () => [`bytes-absent ${file.content.path}`]],
    ['missing bytes with a marker', () => mark(file.content.path, file.uploadId).then(() => others.remove([file.content.path])), () => [`bytes-absent ${file.content.path}`]],
    ['truncated bytes', () => others.replace(file.content.path, Buffer.from(BYTES.slice(1))), () => [`bytes-size ${file.content.path}`]],
    ['extra bytes', () => append(file.content.path, '\n'), () => [`bytes-size ${file.content.path}`]],
    ['changed bytes', () => others.replace(file.content.path, Buffer.from('day,load\n1,3\n')), () => [`bytes-digest ${file.content.path}`]],
    ['a file without a line', () => copy(file.content.path, `${FILES}/${id}.csv`), () => [`line-absent ${FILES}/${id}.csv`]],
    ['a file with the marker of another', () => mark(`${FILES}/${id}.xml`, id).then(() => copy(file.content.path, `${FILES}/${id}.csv`)), () => [`line-absent ${FILES}/${id}.csv`]],
    ['a file whose upload was fenced', () => others.create(`${DAY}/${id}.ndjson`, Buffer.alloc(0)).then(() => copy(file.content.path, `${FILES}/${id}.csv`)), () => [`line-absent ${FILES}/${id}.csv`]],
    ['a missing segment', () => others.remove([segment]), () => [`line-absent ${file.content.path}`]],
    ['a torn line', () => append(shared, '{"upload_id":"'), () => [`line-torn ${shared}`]],
    ['a line without its newline', async () => others.replace(shared, (await others.read(shared))?.bytes.subarray(0, -1) ?? Buffer.alloc(0)), () => [`line-torn ${shared}`]],
    ['an empty line', () => append(shared, '\n'), () => [`line-malformed ${shared}`]],
    ['zeros', () => append(shared, '\0\0\n'), () => [`line-malformed ${shared}`]],
    ["a segment in another day's directory", () => copy(shared, shared.replace('03-01', '03-02')).then(() => others.remove([shared])), () => [1, 2].map(() => `line-malformed ${shared.replace('03-01', '03-02')}`)],
    ['two lines of one upload', async () => append(segment, (await others.read(segment))?.bytes ?? ''), () => [`line-duplicate ${segment}`]],
    ['a segment that exists twice', () => copy(segment, `${DAY}/zzz.ndjson`), () => [`line-duplicate ${DAY}/zzz.ndjson`]],
    ['a segment that exists three times', () => Promise.all(['y', 'z'].map((name) => copy(segment, `${DAY}/${name}.ndjson`))), () => [`line-duplicate ${DAY}/y.ndjson`, `line-duplicate ${DAY}/z.ndjson`]],
    ['a line of another day', () => copy(segment, `${DAY.replace('01', '02')}/z.ndjson`), () => [`line-duplicate ${DAY.replace('01', '02')}/z.ndjson`, `line-malformed ${DAY.replace('01', '02')}/z.ndjson`]],
    ['an unknown name in uploads/', () => others.create('uploads/README', Buffer.alloc(0)), () => ['name-unknown uploads/README']],
    ['an unknown kind, once for all its contents', () => Promise.all(['a', 'b/c'].map((name) => others.create(`uploads/kind=other/${name}`, Buffer.alloc(0)))), () => ['name-unknown uploads/kind=other/']],
    ['a day that does not exist', () => others.create('uploads/kind=historical/date=2026-02-30/x.ndjson', Buffer.alloc(0)), () => ['name-unknown uploads/kind=historical/date=2026-02-30/']],
    ['bytes in place of a directory', () => others.create('uploads/kind=nowcast', Buffer.from('x')), () => ['name-unknown uploads/kind=nowcast']],
    ['an unknown kind with an object of its own key', () => Promise.all(['', 'a', 'b/c'].map((name) => others.create(`uploads/kind=other/${name}`, Buffer.alloc(0)))), () => ['name-unknown uploads/kind=other/']],
    ['an object that has the key of a directory, and bytes', () => others.create('uploads/kind=historical/', Buffer.from('x')), () => ['name-unknown uploads/kind=historical/']],
    ['a segment of another name', () => others.create(`${DAY}/x.ndjson.gz`, Buffer.alloc(0)), () => [`name-unknown ${DAY}/x.ndjson.gz`]],
    ['an object below a file', () => others.create(`${file.content.path}/x`, Buffer.alloc(0)), () => [`name-unknown ${file.content.path}/`]],
    ['a customer with a wrong encoding', () => others.create('files/kind=nowcast/customer_id=%41/x', Buffer.alloc(0)), () => ['name-unknown files/kind=nowcast/customer_id=%41/']],
    ['a file whose name is not an upload id', () => others.create(`${FILES}/notes.txt`, Buffer.alloc(0)), () => [`name-unknown ${FILES}/notes.txt`]],
    ['an empty name', () => others.create('files//x', Buffer.alloc(0)), () => ['name-unknown files//']],
  ])('%s', async (_, breakStore, defects) => {
    await breakStore();
    expect((await shown()).filter((finding) => !finding.includes(' staged '))).toEqual(defects().map((defect) => `defect ${defect}`).sort());
  });

  it.each<[string, (objects: ListedObject[]) => ListedObject[]]>([
    ['a key', (objects) => objects.flatMap((object) => [object, object])],
    ['a page', (objects) => [...objects.slice(0, 2), ...objects]],
  ])('and nothing when the listing repeats %s', async (_, listed) => {
    bucket.listed = listed;
    expect(await found()).toMatchObject({ findings: [], totals: { uploads: 3, files: 1 } });
  });

  it('and named as in a data directory', async () => {
    await others.replace(file.content.path, Buffer.from(BYTES.slice(1)));
    const lines = [];
    for await (const line of jsonReport(verifyBucket(bucket))) lines.push(JSON.parse(line) as unknown);
    expect(lines).toEqual([
      { state: 'defect', kind: 'bytes-size', path: file.content.path, upload_id: file.uploadId, segment, offset: 0, detail: 'the file has 12 bytes, its line says 13' },
      { summary: { uploads: 3, files: 1, bytes: 12, defects: 1, under_way: 0, unknown: 0 } },
    ]);
  });
});

describe('the claim of a key', () => {
  const keyed = async (ageMs: number) => {
    const upload = await drafts.with({ idempotencyKey: 'key', receivedAt: new Date(Date.now() - ageMs) }).build().conclude(null);
    return { upload, path: await writeSegment(`${segmentDirectory(upload.kind, upload.receivedAt)}/${upload.uploadId}.ndjson`, upload) };
  };

  it('is reported as missing while its line is younger than 24 hours', async () => {
    const { upload, path } = await keyed(23 * HOUR_MS);
    const { findings } = await found();
    expect(findings).toMatchObject([{ state: 'defect', kind: 'claim-absent', path, uploadId: upload.uploadId, line: { segment: path, offset: 0 } }]);
    await others.create(claimKey(idempotencyScope(upload) ?? ''), Buffer.from('{}'));
    expect(await shown()).toEqual([]);
  });

  it.each([
    [48, 47, ['key-duplicate']],
    [49, 25, []],
  ])('is on one line within 24 hours: of lines from %i and %i hours ago, these are defects: %j', async (earlier, later, defects) => {
    await keyed(earlier * HOUR_MS);
    await keyed(later * HOUR_MS);
    expect((await found()).findings.map(({ kind }) => kind)).toEqual(defects);
  });

  it('is not needed by an older line', async () => {
    await keyed(25 * HOUR_MS);
    expect(await shown()).toEqual([]);
  });

  it("is required according to the store's clock", async () => {
    bucket.aheadMs = 2 * HOUR_MS;
    await keyed(23 * HOUR_MS);
    expect(await shown()).toEqual([]);
  });
});

/**
 * Verifies the bucket. Before operation number `from` of the verification, carries out the first of `steps`; before
 * each later operation, the next one. If `every` is 2 or 3, only before every second or third operation.
 */
async function meanwhile(from: number, steps: readonly (() => Promise<unknown>)[], every = 1) {
  let operations = 0;
  const left = [...steps];
  bucket.before = async () => {
    const since = operations++ - from;
    if (since >= 0 && since % every === 0) await left.shift()?.();
  };
  const result = await found();
  return { ...result, operations };
}

describe('an upload in progress', () => {
  it('is reported as in progress, with its file', async () => {
    const id = uuidV7();
    const path = `${FILES}/${id}.csv`;
    await mark(path, id);
    expect(await shown()).toEqual([`under-way staged staging/${id}`]);
    await copy(file.content.path, path);
    expect(await shown()).toEqual([`under-way line-absent ${path}`, `under-way staged staging/${id}`]);
  });

  it('is reported as in progress, with its file, if it shares a marker and a segment', async () => {
    const [id, other, segmentId] = [uuidV7(), uuidV7(), uuidV7()];
    const [path, otherPath] = [`${FILES}/${id}.csv`, `${FILES}/${other}.csv`];
    await markShared([path, otherPath], segmentId);
    for (const each of [path, otherPath]) await copy(file.content.path, each);
    const staged = `under-way staged staging/${segmentId}.ndjson`;
    expect(await shown()).toEqual([`under-way line-absent ${path}`, `under-way line-absent ${otherPath}`, staged].sort());
    await markShared([path], segmentId);
    expect(await shown()).toEqual([`defect line-absent ${otherPath}`, `under-way line-absent ${path}`, staged].sort());
  });

  const ownMarker = ({ uploadId }: FileUpload) => `staging/${uploadId}`;
  const ownSegment = ({ uploadId }: FileUpload) => `${DAY}/${uploadId}.ndjson`;
  const begin = (upload: FileUpload) => [() => mark(upload.content.path, upload.uploadId), () => others.create(upload.content.path, Buffer.from(BYTES))];
  const keep = (upload: FileUpload) => [() => writeSegment(ownSegment(upload), upload), () => others.remove([ownMarker(upload)])];
  /** Sorts after the upload's id, so that a listing finds the shared marker later than the upload's own. */
  const sharedId = ({ uploadId }: FileUpload) => uuidV7({ msecs: timeOfUuid(uploadId) + 500, random: new Uint8Array(16) });

  const leave = (upload: FileUpload) => [
    () => markShared([upload.content.path], sharedId(upload)),
    () => others.create(upload.content.path, Buffer.from(BYTES)),
    () => mark(upload.content.path, upload.uploadId),
    () => markShared([], sharedId(upload)),
    () => others.remove([`staging/${sharedId(upload)}.ndjson`]),
  ];

  it.each<[string, (upload: FileUpload) => (() => Promise<unknown>)[]]>([
    ['is kept', (upload) => [...begin(upload), ...keep(upload)]],
    ['is given up', (upload) => [...begin(upload), () => others.create(ownSegment(upload), Buffer.alloc(0)), () => others.remove([upload.content.path]), () => others.remove([ownMarker(upload)])]],
    ['leaves a shared marker for one of its own', leave],
    ['is kept after it has left a shared marker', (upload) => [...leave(upload), ...keep(upload)]],
  ])('is not a defect, whenever it %s', async (_, steps) => {
    for (const every of [1, 2, 3]) {
      for (let from = 0, last = 1; from <= last; from++) {
        const upload = await aFile();
        const { findings, operations } = await meanwhile(from, steps(upload), every);
        expect({ from, every, findings: findings.filter(({ state }) => state !== 'under-way') }).toEqual({ from, every, findings: [] });
        await others.remove([ownMarker(upload), `staging/${sharedId(upload)}.ndjson`, upload.content.path, ownSegment(upload)]);
        last = operations;
      }
    }
  });
});

describe('a compaction in progress', () => {
  const PLAN = 'compaction/kind=historical/date=2026-03-01';
  const sources = (): string[] => [segment, shared];
  let target: string;

  const plan = (...named: string[]): Promise<unknown> => others.create(PLAN, Buffer.from(JSON.stringify({ target, sources: named, bytes: 1 })));
  const merge = async (): Promise<void> => {
    for (const source of sources()) await append(target, (await others.read(source))?.bytes ?? '');
  };

  beforeEach(async () => {
    target = `${DAY}/${uuidV7()}.ndjson`;
    // Compaction merges only segments whose names have times of their day.
    const before = sources();
    [segment, shared] = [0, 1].map((seq) => `${DAY}/${uuidV7({ msecs: TIME.getTime(), seq })}.ndjson`) as [string, string];
    for (const [index, key] of sources().entries()) await copy(before[index] ?? '', key);
    await others.remove(before);
  });

  it('is reported as in progress, by its target', async () => {
    await plan(...sources());
    expect(await shown()).toEqual([]);
    await merge();
    const underWay = [`under-way line-duplicate ${target}`];
    expect(await shown()).toEqual(underWay);
    expect(await shown({ uploadsPerPass: 1 })).toEqual(underWay);
    await others.remove([segment]);
    expect(await shown()).toEqual(underWay);
    await others.remove([shared]);
    expect(await shown()).toEqual([]);
  });

  it.each<[string, (target: string) => string]>([
    ['after its sources', (target) => target],
    ['before its sources', () => `${DAY}/0.ndjson`],
  ])('is not a defect, whenever it happens, and no line is missed (target %s)', async (_, name) => {
    target = name(target);
    const originals = await Promise.all(sources().map(async (key) => [key, (await others.read(key))?.bytes ?? Buffer.alloc(0)] as const));
    const steps = [() => plan(...sources()), merge, () => others.remove([segment]), () => others.remove([shared]), () => others.remove([PLAN])];
    const all = async (): Promise<void> => {
      for (const step of steps) await step();
    };
    for (const [every, done] of [[1, [all]], [1, steps], [2, steps], [3, steps]] as const) {
      for (let from = 0, last = 1; from <= last; from++) {
        const { findings, totals, operations } = await meanwhile(from, done, every);
        expect({ from, every, findings: findings.filter(({ state }) => state !== 'under-way') }).toEqual({ from, every, findings: [] });
        expect(totals.uploads).toBeGreaterThanOrEqual(3);
        expect(totals.bytes).toBeGreaterThanOrEqual(13);
        await others.remove([target, PLAN]);
        for (const [key, bytes] of originals) await others.replace(key, bytes);
        last = operations;
      }
    }
  });

  it.each<[string, string, () => string, number, string?]>([
    ['before its plan is read', 'list', () => 'compaction/', 1],
    ['before its plan is read, and its target is listed first', 'list', () => 'compaction/', 1, `${DAY}/0.ndjson`],
    ['before a source that shares lines with its target is read', 'read', () => segment, 3],
  ])('is not a defect when it ends %s', async (_, operation, key, time, first = target) => {
    target = first;
    await plan(...sources());
    await merge();
    let times = 0;
    bucket.before = async (done, doneTo) => {
      if (done === operation && doneTo === key() && ++times === time) await others.remove([...sources(), PLAN]);
    };
    expect(await shown()).toEqual([]);
    expect(times).toBeGreaterThanOrEqual(time);
  });

  it('does not hide lost bytes, whenever it happens', async () => {
    await others.remove([file.content.path]);
    const original = (await others.read(segment))?.bytes ?? Buffer.alloc(0);
    const move = async (): Promise<void> => {
      await copy(segment, target);
      await others.remove([segment]);
    };
    for (let from = 0, last = 1; from <= last; from++) {
      const { findings, operations } = await meanwhile(from, [move]);
      expect(new Set(findings.map(({ state, kind, path }) => `${state} ${kind} ${path}`))).toEqual(new Set([`defect bytes-absent ${file.content.path}`]));
      await others.remove([target]);
      await others.replace(segment, original);
      last = operations;
    }
  });

  it.each<[string, () => Promise<unknown>, () => string[]]>([
    ['two equal lines in segments of which its plan names only one', () => plan(...sources()).then(() => copy(segment, `${DAY}/z.ndjson`)), () => [`${DAY}/z.ndjson`]],
    ['two equal lines in one segment', async () => plan(...sources()).then(async () => append(segment, (await others.read(segment))?.bytes ?? '')), () => [segment]],
    ['two equal lines while its plan is invalid', () => others.create(PLAN, Buffer.from('{"sources":1}')).then(() => copy(segment, `${DAY}/z.ndjson`)), () => [`${DAY}/z.ndjson`]],
  ])('does not excuse %s', async (_, breakStore, paths) => {
    await breakStore();
    expect(await shown()).toEqual(paths().map((path) => `defect line-duplicate ${path}`));
  });

  it('does not hide a second line of an upload whose first line was just moved', async () => {
    await plan(...sources());
    await merge();
    await copy(segment, `${DAY}/z.ndjson`);
    bucket.before = async (operation, key) => {
      if (operation === 'list' && key === 'compaction/') await others.remove([...sources(), PLAN]);
    };
    expect(await shown()).toEqual([`defect line-duplicate ${DAY}/z.ndjson`]);
  });
});

describe('unreadable objects are reported, and the rest is checked', () => {
  const failing = (operation: string, path: () => string, first = 0): void => {
    let count = 0;
    bucket.before = (done, key) => {
      if (done === operation && key === path() && count++ >= first) throw new Error('503');
    };
  };

  it.each<[string, string, () => string, number, () => string[]]>([
    ['a file', 'open', () => file.content.path, 0, () => [`unreadable ${file.content.path}`]],
    ['a segment', 'read', () => segment, 0, () => [`line-absent ${file.content.path}`, `unreadable ${segment}`]],
    ['a segment when files are matched', 'read', () => segment, 1, () => [`line-absent ${file.content.path}`, `unreadable ${segment}`]],
    ['a segment that was not needed otherwise', 'read', () => shared, 1, () => [`unreadable ${shared}`]],
  ])('%s', async (_, operation, path, first, expected) => {
    await others.create('uploads/README', Buffer.alloc(0));
    failing(operation, path, first);
    expect(await shown()).toEqual(['defect name-unknown uploads/README', ...expected().map((finding) => `unknown ${finding}`)]);
  });

  it('but verification fails when the bucket cannot be listed', async () => {
    failing('list', () => 'files/', 1);
    await expect(found()).rejects.toThrow('503');
  });
});

describe('a segment of many megabytes', () => {
  /**
   * A bucket that ends each read of an object with an error after `pieces` pieces, like a store that closes slow reads,
   * and at the byte `brokenAt` of the object.
   */
  class ImpatientBucket extends InMemoryBucket {
    pieces = Infinity;
    brokenAt = Infinity;

    override async open(key: string, range?: ByteRange): Promise<AsyncIterable<Uint8Array> | undefined> {
      const pieces = await super.open(key, range);
      const { pieces: most, brokenAt } = this;
      return (
        pieces &&
        (async function* () {
          let count = 0;
          let position = range?.first ?? 0;
          for await (const piece of pieces) {
            position += piece.length;
            if (count++ >= most || position > brokenAt) throw new Error('terminated');
            yield piece;
          }
        })()
      );
    }
  }

  let impatient: ImpatientBucket;
  const LINES = 9_000;

  beforeEach(async () => {
    impatient = new ImpatientBucket();
    others = impatient.another();
    await writeSegment(shared, ...(await Promise.all(Array.from({ length: LINES }, aJson))));
  });

  it('is read on from where the store ended the read', async () => {
    impatient.pieces = 2;
    expect(await found({}, impatient)).toMatchObject({ findings: [], totals: { uploads: LINES } });
  });

  it('is unreadable when the store ends each read at the same place', async () => {
    impatient.brokenAt = 300_000;
    const { findings } = await found({}, impatient);
    expect(findings.map(({ state, kind, path, detail }) => ({ state, kind, path, detail }))).toEqual([
      { state: 'unknown', kind: 'unreadable', path: shared, detail: 'terminated' },
    ]);
  });
});

describe('hundreds of objects', () => {
  const COUNT = 500;
  const kept: FileUpload[] = [];

  beforeEach(async () => {
    kept.length = 0;
    for (let number = 0; number < COUNT; number++) {
      const upload = await aFile(String(number));
      kept.push(upload);
      await others.create(upload.content.path, Buffer.from(String(number)));
      await writeSegment(`${segmentDirectory(upload.kind, upload.receivedAt)}/${upload.uploadId}.ndjson`, upload);
    }
  });

  it('are verified several at a time, in one pass and in several', async () => {
    const running = { read: 0, open: 0 } as Record<string, number>;
    const most = { read: 0, open: 0 } as Record<string, number>;
    bucket.before = (operation) => {
      running[operation] = (running[operation] ?? 0) + 1;
      most[operation] = Math.max(most[operation] ?? 0, running[operation]);
    };
    bucket.after = (operation) => {
      running[operation] = (running[operation] ?? 0) - 1;
    };
    expect(await found()).toMatchObject({ findings: [], totals: { uploads: COUNT + 3, files: COUNT + 1 } });
    expect(most).toMatchObject({ read: 8, open: 4 });
    expect(await shown({ uploadsPerPass: 150 })).toEqual([]);
  });

  it('are distinguished from defects among them', async () => {
    const [absent, changed, lineless, doubled] = kept.filter((_, index) => index % 120 === 17) as [FileUpload, FileUpload, FileUpload, FileUpload];
    const segmentOf = ({ uploadId }: Upload): string => `${DAY}/${uploadId}.ndjson`;
    await others.remove([absent.content.path, segmentOf(lineless)]);
    await others.replace(changed.content.path, Buffer.from('x'.repeat(changed.content.size)));
    await copy(segmentOf(doubled), `${dirname(segmentOf(doubled))}/z.ndjson`);
    const expected = [
      `defect bytes-absent ${absent.content.path}`,
      `defect bytes-digest ${changed.content.path}`,
      `defect line-absent ${lineless.content.path}`,
      `defect line-duplicate ${DAY}/z.ndjson`,
    ].sort();
    expect(await shown()).toEqual(expected);
    expect(await shown({ uploadsPerPass: 150 })).toEqual(expected);
  });
});

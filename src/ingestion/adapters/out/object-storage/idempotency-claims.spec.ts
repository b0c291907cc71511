import { v7 as uuidV7 } from 'uuid';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { DAY_MS, MINUTE_MS } from '../../../../common/durations.js';
import { BucketView } from '../../../../testing/bucket.view.js';
import { InMemoryBucket } from '../../../../testing/in-memory.bucket.js';
import { anUploadDraft } from '../../../../testing/upload-draft.builder.js';
import { CLAIMS, claimKey } from './keys.js';
import { ObjectStorageFileStorage } from './object-storage.file-storage.adapter.js';

const KEYED = { idempotencyKey: 'key', customerId: 'customer-1' };
const BUILDERS = [
  ['a file', () => anUploadDraft().with(KEYED).file('the bytes')],
  ['no file', () => anUploadDraft().with(KEYED)],
] as const;
const GARBAGE = Buffer.from('ff00c3283d9e', 'hex');

describe.each(BUILDERS)('the damaged claim of an upload with %s', (_, builder) => {
  const key = claimKey(builder().build().idempotencyScope ?? '');
  let bucket: InMemoryBucket;
  let view: BucketView;
  let warnings: string[];
  let storages: ObjectStorageFileStorage[];

  /**
   * A replica that sees the store's clock `aheadMs` milliseconds later, so that all objects are that much older for it.
   */
  const open = (aheadMs = 0, mine = bucket.another()) => {
    mine.aheadMs = aheadMs;
    const storage = new ObjectStorageFileStorage({ bucket: mine, logger: { warn: (message) => warnings.push(message) } });
    storages.push(storage);
    return storage;
  };
  const store = (storage: ObjectStorageFileStorage) => storage.store(builder().build());
  const damage = (bytes: string | Buffer = GARBAGE) => bucket.replace(key, Buffer.from(bytes as string));

  beforeEach(() => {
    bucket = new InMemoryBucket();
    view = new BucketView(bucket);
    warnings = [];
    storages = [];
  });
  afterEach(async () => {
    vi.useRealTimers();
    await Promise.all(storages.map((storage) => storage.close()));
  });

  it.each<[string, (whole: Buffer) => string | Buffer]>([
    ['random bytes', () => GARBAGE],
    ['no bytes', () => ''],
    ['its first half', (whole) => whole.subarray(0, whole.length / 2)],
    ['another JSON', () => '{"sources":1}'],
    ['an array', () => '[]'],
    ["another upload's segment", (whole) => String(whole).replace(/"segment":"[^"]*/, '"segment":"uploads/kind=historical/date=2026-03-01/1.ndjson')],
    ['a path outside of files/', (whole) => String(whole).replace(/"content_path":[^,}]*/, '"content_path":"uploads/README"')],
    ["another upload's file", (whole) => String(whole).replace(/"content_path":[^,}]*/, `"content_path":"files/kind=historical/customer_id=c/date=2026-03-01/${uuidV7()}.csv"`)],
  ])('is rebuilt from the line, and the repeated request is answered (%s)', async (__, form) => {
    const first = await store(open());
    for (const idempotencyKey of ['another', 'key-2', null]) await open().store(builder().with({ idempotencyKey }).build());
    const whole = (await bucket.read(key))?.bytes ?? Buffer.alloc(0);
    await damage(form(whole));
    for (const storage of [open(), open(60 * MINUTE_MS)]) expect(await store(storage)).toEqual({ ...first, replayed: true });
    expect(warnings).toEqual([expect.stringContaining(`${key} was damaged`)]);
    expect(JSON.parse(String((await bucket.read(key))?.bytes))).toEqual({ ...(JSON.parse(String(whole)) as object), kept: true });
    expect(await view.lines()).toHaveLength(4);
  });

  it('is rebuilt even if it is a copy of another claim', async () => {
    const first = await store(open());
    await open().store(builder().with({ idempotencyKey: 'another' }).build());
    const [other = ''] = (await view.keys(CLAIMS)).filter((name) => name !== key);
    await damage((await bucket.read(other))?.bytes);
    expect(await store(open())).toEqual({ ...first, replayed: true });
    expect(warnings).toHaveLength(1);
  });

  it('is searched for in the lines while they are listed', async () => {
    const first = await store(open());
    const directory = `uploads/kind=historical/date=${new Date().toISOString().slice(0, 10)}`;
    for (let count = 0; count < 1_500; count += 1) await bucket.create(`${directory}/${uuidV7()}.ndjson`, Buffer.from('{}\n'));
    await damage();
    const mine = bucket.another();
    const storage = open(0, mine);
    // The first upload with a key waits until the lines were compared with the claims.
    await storage.store(builder().with({ idempotencyKey: 'another' }).build());
    let listed = 0;
    let listedBefore: number | undefined;
    mine.listed = (objects) =>
      objects.map(({ key: name, size, ageMs }) => ({
        key: name,
        size,
        get ageMs() {
          listed += 1;
          return ageMs;
        },
      }));
    mine.before = (operation, name) => {
      if (operation === 'read' && name.startsWith('uploads/')) listedBefore ??= listed;
    };
    expect(await store(storage)).toEqual({ ...first, replayed: true });
    expect(listedBefore).toBeLessThan(1_100);
  });

  it('makes a different request under its key be rejected', async () => {
    await store(open());
    await damage();
    await expect(open().store(builder().with({ manufacturer: 'Other' }).build())).rejects.toMatchObject({ kind: 'idempotency-key-reused' });
  });

  it('is taken over by the next upload when no line has the key, once nobody renews it', async () => {
    await damage();
    await open().store(builder().with({ idempotencyKey: 'another' }).build());
    await expect(store(open())).rejects.toMatchObject({ kind: 'request-in-progress' });
    const first = await store(open(MINUTE_MS + 1));
    expect(first.replayed).toBe(false);
    expect(await store(open())).toEqual({ ...first, replayed: true });
    expect(warnings).toEqual([expect.stringContaining(`${key} was damaged`)]);
    expect(await view.lines()).toHaveLength(2);
  });

  it.each(['00:00:01', '00:30:00', '01:00:01', '12:00:00', '23:30:00', '23:59:58'])('is taken over by the next upload when the line is 24 hours old (%s UTC)', async (time) => {
    vi.useFakeTimers({ toFake: ['Date'], now: Date.parse(`2026-03-01T${time}Z`) });
    await store(open());
    await damage();
    expect((await store(open(DAY_MS - 1_000))).replayed).toBe(true);
    await damage();
    const second = await store(open(DAY_MS + 1_000));
    expect(second.replayed).toBe(false);
    expect(await view.lines()).toHaveLength(2);
  });

  it.each([
    ['a line', 1],
    ['no line', 0],
  ])('is found by five replicas simultaneously, and exactly one upload is kept (%s)', async (__, count) => {
    if (count > 0) await store(open());
    await damage();
    const replicas = Array.from({ length: 5 }, () => open(2 * MINUTE_MS));
    const outcomes = await Promise.allSettled(replicas.flatMap((replica) => [store(replica), store(replica)]));
    const stored = outcomes.filter((outcome) => outcome.status === 'fulfilled' && outcome.value.replayed === false);
    expect(stored).toHaveLength(1 - count);
    for (const outcome of outcomes) if (outcome.status === 'rejected') expect(outcome.reason).toMatchObject({ kind: 'request-in-progress' });
    for (const replica of replicas) expect(await store(replica)).toMatchObject({ replayed: true });
    expect(await view.lines()).toHaveLength(1);
    expect(warnings).toHaveLength(1);
  });

  it('makes an upload in progress fail, so that only the next one is kept', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    const mine = bucket.another();
    let renewed = (): void => undefined;
    const renewal = new Promise<void>((done) => (renewed = done));
    mine.after = (operation, name) => {
      if (operation === 'replace' && name === key) renewed();
    };
    let goOn = (): void => undefined;
    const gate = new Promise<void>((done) => (goOn = done));
    const slow = builder().build();
    const storing = open(0, mine).store({
      ...slow,
      conclude: async (stored) => {
        await gate;
        return slow.conclude(stored);
      },
    });
    const outcome = Promise.allSettled([storing]);
    await expect.poll(() => view.keys(CLAIMS)).toHaveLength(1);
    await damage();
    vi.advanceTimersByTime(15_000);
    await renewal;
    const second = await store(open(2 * MINUTE_MS));
    expect(second.replayed).toBe(false);
    goOn();
    expect(await outcome).toMatchObject([{ status: 'rejected', reason: { kind: 'storage-failure' } }]);
    expect(await store(open())).toEqual({ ...second, replayed: true });
    expect(await view.lines()).toHaveLength(1);
  });
});

it('the claim of an upload that failed is taken over by the next one without a warning', async () => {
  const warnings: string[] = [];
  const storage = new ObjectStorageFileStorage({ bucket: new InMemoryBucket(), logger: { warn: (message) => warnings.push(message) } });
  const draft = anUploadDraft().with(KEYED).file('the bytes');
  await expect(storage.store({ ...draft.build(), conclude: () => Promise.reject(new Error('digest mismatch')) })).rejects.toThrow();
  expect(await storage.store(draft.build())).toMatchObject({ replayed: false });
  expect(warnings).toEqual([]);
  await storage.close();
});

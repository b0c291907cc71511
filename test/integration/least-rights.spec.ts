import { randomBytes } from 'node:crypto';
import { readFile, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import {
  CreateMultipartUploadCommand,
  ListMultipartUploadsCommand,
  PutBucketPolicyCommand,
  S3Client,
  UploadPartCommand,
} from '@aws-sdk/client-s3';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MIB } from '../../src/common/sizes.js';
import { uuidAt } from '../../src/common/uuid.js';
import { compactDay } from '../../src/ingestion/adapters/out/object-storage/compaction.js';
import { markerKey, segmentKey } from '../../src/ingestion/adapters/out/object-storage/keys.js';
import { ObjectStorageFileStorage } from '../../src/ingestion/adapters/out/object-storage/object-storage.file-storage.adapter.js';
import { S3Bucket } from '../../src/ingestion/adapters/out/object-storage/s3/s3.bucket.js';
import { verifyBucket } from '../../src/ingestion/adapters/out/object-storage/store-verification/bucket-view.js';
import { Sweeper } from '../../src/ingestion/adapters/out/object-storage/sweeper.js';
import { contentPath, indexLine, segmentDirectory, utcDate } from '../../src/ingestion/domain/layout.js';
import { BucketView } from '../../src/testing/bucket.view.js';
import { anUploadDraft } from '../../src/testing/upload-draft.builder.js';
import { isVersitygwAvailable, startVersitygw, type Versitygw } from '../servers/versitygw.mjs';

const USER = { accessKeyId: 'service', secretAccessKey: 'service-secret' };
const KEYED = { idempotencyKey: 'key', customerId: 'customer-1' };
/** The steps that fail for an S3 user who may only read. */
const WRITING = [
  'readiness',
  'an upload without a file',
  'a file',
  'a file in parts',
  'removing the parts of an interrupted file',
  'an upload under a key',
  'its repeat',
  'removing markers',
  'cleaning up after a crash',
  'compaction',
];
/** For each action that the policy in docs/object-storage.md allows, the steps that fail without this action. */
const NEEDED_FOR: Readonly<Record<string, readonly string[]>> = {
  's3:GetObject': ['readiness', 'its repeat', 'cleaning up after a crash', 'compaction', 'verification'],
  's3:PutObject': WRITING,
  's3:DeleteObject': ['readiness', 'removing markers', 'cleaning up after a crash', 'compaction'],
  's3:AbortMultipartUpload': ['readiness', 'removing the parts of an interrupted file', 'removing markers', 'cleaning up after a crash'],
  's3:ListBucket': ['readiness', 'cleaning up after a crash', 'compaction', 'verification'],
  's3:ListBucketMultipartUploads': ['readiness', 'removing markers', 'cleaning up after a crash'],
};
const logger = { warn: () => undefined };

interface Statement {
  readonly Effect: string;
  readonly Action: readonly string[];
  readonly Resource: string;
}

interface Policy {
  readonly Version: string;
  readonly Statement: readonly Statement[];
}

async function policyOfPage(): Promise<Policy> {
  const page = await readFile('docs/object-storage.md', 'utf8');
  const [, json = ''] = [...page.matchAll(/```json\n([^]*?)```/g)].find(([block]) => block.includes('"Statement"')) ?? [];
  return JSON.parse(json) as Policy;
}

/**
 * The policy in docs/object-storage.md, applied to this bucket and the test's user, with only those actions that
 * `isLeft` accepts.
 */
async function policyFor(bucket: string, isLeft: (action: string) => boolean): Promise<string> {
  const policy = await policyOfPage();
  const statements = policy.Statement.map((statement) => ({
    ...statement,
    Principal: { AWS: [USER.accessKeyId] },
    Action: statement.Action.filter(isLeft),
    Resource: statement.Resource.replace('load-data', bucket),
  }));
  return JSON.stringify({ ...policy, Statement: statements.filter(({ Action }) => Action.length > 0) });
}

describe.runIf(isVersitygwAvailable())('with the rights in docs/object-storage.md', () => {
  let server: Versitygw;
  let client: S3Client;
  let count = 0;

  beforeAll(async () => {
    server = await startVersitygw({ iam: true });
    const { endpoint, region, accessKeyId, secretAccessKey } = server;
    client = new S3Client({ endpoint, region, forcePathStyle: true, credentials: { accessKeyId, secretAccessKey } });
    await server.createUser(USER.accessKeyId, USER.secretAccessKey);
  });
  afterAll(async () => {
    client.destroy();
    await server.stop();
  });

  /**
   * Runs all steps of the service and of its commands in a new bucket, with a policy that allows only some actions.
   *
   * @returns the names of the steps that failed.
   */
  async function failures(isLeft: (action: string) => boolean): Promise<string[]> {
    const Bucket = `load-data-${count++}`;
    await server.createBucket(Bucket);
    await client.send(new PutBucketPolicyCommand({ Bucket, Policy: await policyFor(Bucket, isLeft) }));
    const open = (credentials: typeof USER) => {
      const { endpoint, region } = server;
      const options = { endpoint, region, forcePathStyle: true, timeoutMs: 10_000, maxUploadBytes: 1024 * MIB };
      return new S3Bucket({ ...options, bucket: Bucket, prefix: '', credentials });
    };
    const root = open(server);
    const bucket = open(USER);
    const storage = new ObjectStorageFileStorage({ bucket: open(USER), logger });
    const view = new BucketView(root);

    const parts = async () => (await client.send(new ListMultipartUploadsCommand({ Bucket }))).Uploads?.length ?? 0;
    const make = (key: string, text: string) => expect(root.create(key, Buffer.from(text))).resolves.toBeDefined();
    const backdate = (key: string, at: Date) => utimes(join(server.directory, Bucket, key), at, at);
    const stored = async (draft: ReturnType<typeof anUploadDraft>) => {
      const { uploadId } = await storage.store(draft.build());
      expect((await view.lines()).map(({ upload_id }) => upload_id)).toContain(uploadId);
    };

    const steps: Readonly<Record<string, () => Promise<void>>> = {
      'readiness': () => storage.checkHealth(),
      'an upload without a file': () => stored(anUploadDraft()),
      'a file': () => stored(anUploadDraft().file('the bytes')),
      'a file in parts': () => stored(anUploadDraft().file(randomBytes(12 * MIB))),
      'removing the parts of an interrupted file': async () => {
        const breakingOff = async function* () {
          yield randomBytes(6 * MIB);
          yield randomBytes(6 * MIB);
          await expect.poll(parts).toBe(1);
          throw new Error('gone');
        };
        await expect(storage.store(anUploadDraft().with({ bytes: breakingOff() }).build())).rejects.toThrow('gone');
        expect(await parts()).toBe(0);
      },
      'an upload under a key': () => stored(anUploadDraft().with(KEYED)),
      'its repeat': async () => {
        expect(await storage.store(anUploadDraft().with(KEYED).build())).toMatchObject({ replayed: true });
      },
      'removing markers': async () => {
        await storage.store(anUploadDraft().file('the bytes').build());
        await expect.poll(() => view.keys('staging/'), { timeout: 3_000 }).toEqual([]);
      },
      'cleaning up after a crash': async () => {
        const uploadId = uuidAt(new Date());
        const path = contentPath({ kind: 'nowcast', customerId: 'lost', filename: 'load.csv', uploadId, beganAt: new Date() });
        const segment = segmentKey(segmentDirectory('nowcast', new Date()), uploadId);
        await make(markerKey(uploadId), JSON.stringify({ content_path: path, segment }));
        await backdate(markerKey(uploadId), new Date(Date.now() - 61_000));
        await make(path, 'the bytes');
        const { UploadId } = await client.send(new CreateMultipartUploadCommand({ Bucket, Key: path }));
        await client.send(new UploadPartCommand({ Bucket, Key: path, UploadId, PartNumber: 1, Body: 'the' }));
        const before = await parts();
        await new Sweeper(bucket, logger).sweep();
        expect(await parts()).toBe(before - 1);
        expect(await view.keys(path)).toEqual([]);
        expect(String(await view.bytes(markerKey(uploadId)))).toContain('"cleared":true');
      },
      'compaction': async () => {
        const day = new Date(Date.now() - 3 * 24 * 3_600_000);
        for (let segment = 0; segment < 2; segment++) {
          const draft = anUploadDraft().with({ receivedAt: day }).build();
          const key = segmentKey(segmentDirectory(draft.kind, day), uuidAt(day));
          await make(key, `${indexLine(await draft.conclude(null))}\n`);
          await backdate(key, day);
        }
        expect(await compactDay(bucket, 'historical', utcDate(day))).toMatchObject({ sources: 2, targets: 1 });
      },
      'verification': async () => {
        const verification = verifyBucket(bucket);
        for await (const finding of verification) expect(finding).toMatchObject({ state: 'under-way' });
        expect(verification.totals.uploads).toBeGreaterThan(0);
      },
    };

    const failed: string[] = [];
    for (const [name, step] of Object.entries(steps)) await step().catch(() => failed.push(name));
    await storage.close();
    bucket.close();
    root.close();
    return failed;
  }

  it('everything works', async () => {
    expect((await policyOfPage()).Statement.flatMap(({ Action }) => Action).sort()).toEqual(Object.keys(NEEDED_FOR).sort());
    expect(await failures(() => true)).toEqual([]);
  });

  it.each(Object.entries(NEEDED_FOR))('but not everything without %s', async (action, failing) => {
    expect(await failures((left) => left !== action)).toEqual(failing);
  });

  it('and two of them are enough to verify', async () => {
    expect(await failures((left) => ['s3:GetObject', 's3:ListBucket'].includes(left))).toEqual(WRITING);
  });
});

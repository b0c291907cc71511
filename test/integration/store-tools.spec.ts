import { createHash } from 'node:crypto';
import { utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { uuidAt } from '../../src/common/uuid.js';
import { AzureBlobBucket } from '../../src/ingestion/adapters/out/object-storage/azure-blob/azure-blob.bucket.js';
import type { Bucket } from '../../src/ingestion/adapters/out/object-storage/bucket.js';
import { segmentKey } from '../../src/ingestion/adapters/out/object-storage/keys.js';
import { S3Bucket } from '../../src/ingestion/adapters/out/object-storage/s3/s3.bucket.js';
import { indexLine, segmentDirectory, utcDate } from '../../src/ingestion/domain/layout.js';
import { BucketView } from '../../src/testing/bucket.view.js';
import { anUploadDraft } from '../../src/testing/upload-draft.builder.js';
import { type Azurite, startAzurite } from '../servers/azurite.mjs';
import { isVersitygwAvailable, startVersitygw, type Versitygw } from '../servers/versitygw.mjs';
import { type Variables, Workspace } from '../support/process.js';

const LIMITS = { timeoutMs: 10_000, maxUploadBytes: 1024 ** 3 };
const DAY = new Date(Date.now() - 3 * 24 * 3_600_000);
const DIRECTORY = segmentDirectory('historical', DAY);
const BYTES = Buffer.from('the bytes');

/** Writes a segment of a past day with this text. @returns the segment's key. */
async function putSegment(bucket: Bucket, text: string): Promise<string> {
  const key = segmentKey(DIRECTORY, uuidAt(DAY));
  await expect(bucket.create(key, Buffer.from(text))).resolves.toBeDefined();
  return key;
}

/**
 * Writes an upload of a past day that has a file: its segment and its file.
 *
 * @returns the keys of the segment and of the file.
 */
async function putUpload(bucket: Bucket, customerId = 'acme'): Promise<{ segment: string; file: string }> {
  const draft = anUploadDraft().with({ customerId, receivedAt: DAY }).file(BYTES).build();
  const upload = await draft.conclude({ size: BYTES.length, sha256: createHash('sha256').update(BYTES).digest('hex') });
  const file = draft.content?.path ?? '';
  await expect(bucket.create(file, BYTES)).resolves.toBeDefined();
  return { segment: await putSegment(bucket, `${indexLine(upload)}\n`), file };
}

/** Parses the output of a command with `--json`: the findings and the summary. */
function reported(lines: readonly string[]) {
  const objects = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  return { summary: objects.pop()?.summary, findings: objects };
}

let workspace: Workspace;
beforeEach(async () => {
  workspace = await Workspace.create();
});
afterEach(() => workspace.dispose());

/** The tests of those commands that work on every object storage, S3 and Azure. */
function toolsOn(open: () => Promise<{ bucket: Bucket; variables: Variables; elsewhere: Variables }>): void {
  let bucket: Bucket;
  let variables: Variables;
  let elsewhere: Variables;
  beforeEach(async () => {
    ({ bucket, variables, elsewhere } = await open());
  });
  afterEach(() => {
    bucket.close();
  });

  it('verify:store finds no defect in an intact store, and names the line of a missing file', async () => {
    const uploads = [await putUpload(bucket), await putUpload(bucket)];
    await putSegment(bucket, '');
    const whole = await workspace.verifyStore([], variables);
    expect(whole).toMatchObject({ code: 0, stderr: '', stdout: `2 uploads, 2 files, ${BYTES.length * 2} bytes, 0 defects\n` });

    const { file = '', segment } = uploads[1] ?? {};
    await bucket.remove([file]);
    const result = await workspace.verifyStore([], variables);
    expect(result).toMatchObject({ code: 1, stderr: '' });
    expect(result.lines).toEqual([`${file}: the file is absent`, `2 uploads, 1 file, ${BYTES.length} bytes, 1 defect`]);
    const { code, lines } = await workspace.verifyStore(['--json'], variables);
    expect({ code, ...reported(lines) }).toMatchObject({
      code: 1,
      findings: [{ state: 'defect', kind: 'bytes-absent', path: file, segment, offset: 0 }],
      summary: { uploads: 2, files: 1, defects: 1, unknown: 0 },
    });
  });

  it('compact leaves segments that their writer may still undo, and changes nothing in a dry run', async () => {
    await putUpload(bucket);
    await putUpload(bucket);
    const view = new BucketView(bucket);
    const before = await view.keys();
    const result = await workspace.compact(['--dry-run', '--json'], variables);
    expect(result).toMatchObject({ code: 0, stderr: '' });
    const { findings, summary } = reported(result.lines);
    expect(findings).toEqual([{ state: 'compacted', path: DIRECTORY, sources: 0, targets: 0, bytes: 0, fences: 0 }]);
    expect(summary).toMatchObject({ days: 1, sources: 0, failed: 0, dry_run: true });
    expect(await view.keys()).toEqual(before);

    const terminal = workspace.onTerminal('compact', '--dry-run', variables);
    expect(await terminal.exited).toEqual({ code: 0, signal: null });
    // Clears the progress line before the result.
    expect(terminal.stdout).toContain('\r\x1b[K');
  });

  it("erase removes a customer's uploads, those before a time or all", async () => {
    const kept = await putUpload(bucket);
    for (let count = 0; count < 2; count++) await putUpload(bucket, 'Ada');
    const ada = ['--customer', 'Ada'];
    const view = new BucketView(bucket);
    for (const [parameters, said] of [
      [[...ada, '--dry-run'], '2 uploads would be removed.\n'],
      [[...ada, '--before', DAY.toISOString()], '0 uploads were removed.\n'],
      [[...ada, '--before', new Date(DAY.getTime() + 1).toISOString(), '--dry-run'], '2 uploads would be removed.\n'],
    ] as const) {
      expect(await workspace.erase(parameters, variables)).toMatchObject({ code: 0, stderr: '', stdout: said });
      expect(await view.keys('files/')).toHaveLength(3);
    }
    expect(await workspace.erase(ada, variables)).toMatchObject({ code: 0, stderr: '', stdout: '2 uploads were removed.\n' });
    expect(await view.keys('files/')).toEqual([kept.file]);
    for (const key of await view.keys('uploads/')) expect(String(await view.bytes(key))).not.toContain('Ada');
    expect(await workspace.verifyStore([], variables)).toMatchObject({ code: 0, stdout: `1 upload, 1 file, ${BYTES.length} bytes, 0 defects\n` });
  });

  it('erase ends with 2 and says so when the bucket does not exist', async () => {
    const { code, stdout, stderr } = await workspace.erase(['--customer', 'Ada'], { ...variables, ...elsewhere });
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(/^Uploads could not be removed.*(bucket|container).*$/im);
    expect(stderr).not.toContain('    at ');
  });

  it.each(['verifyStore', 'compact'] as const)('%s ends with 2 and one line when the bucket does not exist', async (command) => {
    const { code, stdout, stderr } = await workspace[command]([], { ...variables, ...elsewhere });
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(/^[^\n]*(bucket|container)[^\n]*\n$/i);
  });
}

describe.runIf(isVersitygwAvailable())('on S3', () => {
  const PREFIX = 'of/all';
  let server: Versitygw;
  let name: string;
  let count = 0;
  beforeAll(async () => {
    server = await startVersitygw();
  });
  afterAll(() => server.stop());

  async function open() {
    name = `load-data-${count++}`;
    await server.createBucket(name);
    const { endpoint, region, accessKeyId, secretAccessKey } = server;
    const credentials = { accessKeyId, secretAccessKey };
    return {
      bucket: new S3Bucket({ bucket: name, prefix: PREFIX, endpoint, region, credentials, forcePathStyle: true, ...LIMITS }),
      variables: {
        FILE_STORAGE: 's3',
        S3_BUCKET: name,
        S3_PREFIX: PREFIX,
        S3_ENDPOINT: endpoint,
        S3_REGION: region,
        S3_FORCE_PATH_STYLE: 'true',
        AWS_ACCESS_KEY_ID: accessKeyId,
        AWS_SECRET_ACCESS_KEY: secretAccessKey,
      },
      elsewhere: { S3_BUCKET: 'nowhere' },
    };
  }
  toolsOn(open);

  it('compact merges many segments into one, and verify:store finds no defect before or after', async () => {
    const { bucket, variables } = await open();
    const uploads = [await putUpload(bucket), await putUpload(bucket), await putUpload(bucket)];
    const malformed = await putSegment(bucket, 'no JSON\n');
    const keys = [...uploads.map(({ segment }) => segment), await putSegment(bucket, ''), malformed];
    // Makes the segments older by the clock of the store: versitygw keeps objects as files, and their times are
    // changed.
    for (const key of keys) await utimes(join(server.directory, name, PREFIX, key), DAY, DAY);
    const view = new BucketView(bucket);
    const text = async (segments: readonly string[]) =>
      (await Promise.all(segments.map(async (key) => String(await view.bytes(key))))).join('');
    const before = await text(uploads.map(({ segment }) => segment).sort());
    const clean = { code: 0, stderr: '', stdout: `3 uploads, 3 files, ${BYTES.length * 3} bytes, 0 defects\n` };

    const looked = await workspace.compact(['--dry-run', '--json', '--date', utcDate(DAY), '--kind', 'historical'], variables);
    expect({ code: looked.code, ...reported(looked.lines) }).toMatchObject({
      code: 1,
      findings: [
        { state: 'malformed', path: malformed },
        { state: 'compacted', path: DIRECTORY, sources: 3, targets: 1, bytes: before.length, fences: 1 },
      ],
      summary: { days: 1, sources: 3, targets: 1, fences: 1, malformed: 1, dry_run: true },
    });
    expect((await view.keys(DIRECTORY)).sort()).toEqual(keys.sort());

    await bucket.remove([malformed]);
    expect(await workspace.verifyStore([], variables)).toMatchObject(clean);
    const { code, stderr, lines } = await workspace.compact([], variables);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(lines).toEqual([
      `${DIRECTORY}: 3 segments became 1`,
      `${DIRECTORY}: 1 empty segment removed`,
      `1 day, 3 segments (${before.length.toLocaleString('en')} bytes) became 1, 1 empty segment and 0 claims removed`,
    ]);
    const segments = await view.keys(DIRECTORY);
    expect(segments).toHaveLength(1);
    expect(await text(segments)).toBe(before);
    expect(await workspace.verifyStore([], variables)).toMatchObject(clean);
    bucket.close();
  });
});

describe('on Azure Blob Storage', () => {
  let server: Azurite;
  let count = 0;
  beforeAll(async () => {
    server = await startAzurite();
  });
  afterAll(() => server.stop());

  toolsOn(async () => {
    const container = `load-data-${count++}`;
    await server.createContainer(container);
    const { connectionString } = server;
    return {
      bucket: new AzureBlobBucket({ container, account: { connectionString }, ...LIMITS }),
      variables: { FILE_STORAGE: 'azure', AZURE_STORAGE_CONTAINER: container, AZURE_STORAGE_CONNECTION_STRING: connectionString },
      elsewhere: { AZURE_STORAGE_CONTAINER: 'nowhere' },
    };
  });
});

import { readdir } from 'node:fs/promises';
import { GetObjectCommand, PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { BlobServiceClient } from '@azure/storage-blob';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { startAzurite, type Azurite } from '../servers/azurite.mjs';
import { isVersitygwAvailable, startVersitygw, type Versitygw } from '../servers/versitygw.mjs';
import { cacheVariables, Workspace } from '../support/process.js';

const CONTAINER = 'load-data';
const PATIENCE_MS = 500;

describe.skipIf(!isVersitygwAvailable())('versitygw', () => {
  let server: Versitygw;
  let client: S3Client;

  beforeEach(async () => {
    server = await startVersitygw();
    const { endpoint, region, accessKeyId, secretAccessKey } = server;
    client = new S3Client({ endpoint, region, forcePathStyle: true, credentials: { accessKeyId, secretAccessKey } });
    await server.createBucket(CONTAINER);
  });
  afterEach(async () => {
    client.destroy();
    await server.stop();
  });

  const put = (text: string): Promise<unknown> => client.send(new PutObjectCommand({ Bucket: CONTAINER, Key: 'a/b', Body: text }));
  const get = async (signal?: AbortSignal): Promise<string | undefined> => {
    const { Body } = await client.send(new GetObjectCommand({ Bucket: CONTAINER, Key: 'a/b' }), { abortSignal: signal });
    return Body?.transformToString();
  };

  it('does not answer while it is paused, and continues afterwards', async () => {
    await put('kept');
    await server.pause();
    await expect(get(AbortSignal.timeout(PATIENCE_MS))).rejects.toThrow();
    server.resume();
    expect(await get()).toBe('kept');
  });

  it('keeps its objects when it is killed and restarted', async () => {
    await put('kept');
    const { pid } = server;
    await server.kill();
    await expect(get()).rejects.toThrow();
    await server.restart();
    expect(await get()).toBe('kept');
    expect(server.pid).not.toBe(pid);
  });
});

describe('Azurite', () => {
  let server: Azurite;

  beforeEach(async () => {
    server = await startAzurite();
    await server.createContainer(CONTAINER);
  });
  afterEach(() => server.stop());

  const blob = (container: string) =>
    BlobServiceClient.fromConnectionString(server.connectionString, { retryOptions: { maxTries: 1 } })
      .getContainerClient(container)
      .getBlockBlobClient('a/b');
  const put = (text: string, container = CONTAINER): Promise<unknown> => blob(container).upload(text, Buffer.byteLength(text));
  const get = async (container = CONTAINER, abortSignal?: AbortSignal): Promise<string> =>
    (await blob(container).downloadToBuffer(0, undefined, { abortSignal })).toString();

  it('does not answer while it is paused, and continues afterwards', async () => {
    await put('kept');
    await server.pause();
    await expect(get(CONTAINER, AbortSignal.timeout(PATIENCE_MS))).rejects.toThrow();
    server.resume();
    expect(await get()).toBe('kept');
  });

  it('works again when it is killed and restarted', async () => {
    await server.kill();
    await expect(put('lost')).rejects.toThrow();
    await server.restart();
    await server.createContainer('another');
    await put('kept', 'another');
    expect(await get('another')).toBe('kept');
  });
});

describe('a server that runs for a shell', () => {
  let workspace: Workspace;

  beforeEach(async () => {
    workspace = await Workspace.create();
  });
  afterEach(() => workspace.dispose());

  const serve = async () => {
    const program = workspace.run(process.execPath, ['test/servers/azurite.mjs'], { ...cacheVariables(), TMPDIR: workspace.directory }, process.cwd());
    await program.line(/^Ready$/);
    return { program, endpoint: /BlobEndpoint=([^;]+);/.exec(program.stdout)?.[1] ?? '' };
  };
  const isGone = (endpoint: string): Promise<boolean> =>
    fetch(endpoint).then(
      () => false,
      () => true,
    );

  it('prints the variables to set, and ends in order', async () => {
    const { program, endpoint } = await serve();
    expect(program.stdout).toMatch(/^export AZURE_STORAGE_CONTAINER=load-data\nexport AZURE_STORAGE_CONNECTION_STRING='.*'\nReady\n$/);
    expect(await program.end('SIGTERM')).toEqual({ code: 0, signal: null });
    expect(program.stderr).toBe('');
    expect(await isGone(endpoint)).toBe(true);
    expect(await readdir(workspace.directory)).toEqual([]);
  });

  it('ends with the process that started it', async () => {
    const { program, endpoint } = await serve();
    await program.end('SIGKILL');
    await expect.poll(() => isGone(endpoint)).toBe(true);
    await expect.poll(() => readdir(workspace.directory)).toEqual([]);
  });
});

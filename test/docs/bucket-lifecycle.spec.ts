import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { ExpirationStatus, GetBucketLifecycleConfigurationCommand, type LifecycleRule, PutBucketLifecycleConfigurationCommand, S3Client } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { CLAIMS, CLAIMS_COMPARED, EVENTS, HEALTH, HEALTH_RIGHTS, MARKERS, PLANS, RETENTION_TURN } from '../../src/ingestion/adapters/out/object-storage/keys.js';
import { contentDirectory, linesDirectory } from '../../src/ingestion/domain/layout.js';
import { UPLOAD_KINDS } from '../../src/ingestion/domain/upload.js';

const PAGE = 'docs/object-storage.md';
/** What the page adds to the rules of a bucket with versioning, and the prefixes that it names for it. */
const ADDED = /add `(?<members>"NoncurrentVersionExpiration"[^`]*)` for (?<prefixes>[^;]*?), whose objects are rewritten/;
/** What the service has in a bucket for its own work. */
const OWN_OBJECTS = [MARKERS, CLAIMS, CLAIMS_COMPARED, PLANS, RETENTION_TURN, EVENTS, HEALTH, HEALTH_RIGHTS];

let page: string;
/** The configurations on the page, in their order. */
let configurations: { readonly Rules: readonly LifecycleRule[] }[];
/** Keeps the configuration of a bucket as it was sent, because versitygw has no lifecycle rules. */
let server: Server;
let client: S3Client;
beforeAll(async () => {
  // Silences the SDK's warning about Node 20.
  process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= 'true';
  page = await readFile(PAGE, 'utf8');
  configurations = [...page.matchAll(/^```json\n([^]*?)^```/gm)]
    .map(([, json = '']) => JSON.parse(json) as { Rules?: LifecycleRule[] })
    .flatMap(({ Rules, ...others }) => (Rules ? [{ Rules, ...others }] : []));
  let kept = Buffer.alloc(0);
  server = createServer((request, response) => {
    void buffer(request).then((body) => {
      if (request.method === 'PUT') kept = body;
      response.end(request.method === 'GET' ? kept : undefined);
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  client = new S3Client({ endpoint: `http://127.0.0.1:${port}`, region: 'us-east-1', forcePathStyle: true, credentials: { accessKeyId: 'a', secretAccessKey: 'b' } });
});
afterAll(() => {
  client.destroy();
  server.close();
});

/** Sends rules to a bucket as the SDK does, which leaves out the members that it doesn't know, and reads them again. */
async function asApplied(Rules: readonly LifecycleRule[]): Promise<unknown> {
  const Bucket = 'load-data';
  await client.send(new PutBucketLifecycleConfigurationCommand({ Bucket, LifecycleConfiguration: { Rules: [...Rules] } }));
  return (await client.send(new GetBucketLifecycleConfigurationCommand({ Bucket }))).Rules;
}

const addedTo = (rule: LifecycleRule): LifecycleRule => ({ ...rule, ...(JSON.parse(`{${ADDED.exec(page)?.groups?.members ?? ''}}`) as LifecycleRule) });

it('the lifecycle rules on the page are rules of S3, together in one configuration too', async () => {
  expect(configurations).toHaveLength(2);
  for (const configuration of configurations) expect(Object.keys(configuration)).toEqual(['Rules']);
  const rules = configurations.flatMap(({ Rules }) => Rules);
  expect(await asApplied(rules)).toEqual(rules);
  const withVersions = rules.map(addedTo);
  expect(withVersions).not.toEqual(rules);
  expect(await asApplied(withVersions)).toEqual(withVersions);
  expect(new Set(rules.map(({ ID }) => ID)).size).toBe(rules.length);
  for (const { Status } of rules) expect(Object.values(ExpirationStatus)).toContain(Status);
});

/** The rules that apply to an object. The page says to put S3_PREFIX before the prefixes. */
const rulesFor = (key: string): LifecycleRule[] => configurations.flatMap(({ Rules }) => Rules).filter(({ Filter }) => key.startsWith(Filter?.Prefix ?? ''));

it('the rules remove removed files and lines from a bucket with versioning, and never those that are left', () => {
  for (const kind of UPLOAD_KINDS) {
    for (const directory of [linesDirectory(kind), contentDirectory(kind)]) {
      const rules = rulesFor(`${directory}/`);
      expect(rules.filter(({ NoncurrentVersionExpiration: of }) => of?.NoncurrentDays !== undefined)).toHaveLength(1);
      expect(rules.filter(({ Expiration: of }) => of?.ExpiredObjectDeleteMarker)).toHaveLength(1);
      expect(rules.filter(({ Expiration: of }) => of?.Days !== undefined || of?.Date !== undefined)).toEqual([]);
    }
  }
});

it('the rules remove claims, once they are two days old, and no other object', () => {
  const expiring = (key: string): number[] => rulesFor(key).flatMap(({ Expiration }) => Expiration?.Days ?? []);
  expect(expiring(CLAIMS)).toEqual([2]);
  for (const key of OWN_OBJECTS.filter((each) => each !== CLAIMS)) expect(expiring(key)).toEqual([]);
});

it('the page names all objects that are rewritten again and again for the rule about earlier versions', () => {
  const named = [...(ADDED.exec(page)?.groups?.prefixes ?? '').matchAll(/`([^`]*)`/g)].map(([, prefix = '']) => prefix);
  expect(OWN_OBJECTS.filter((key) => !named.some((prefix) => key.startsWith(prefix)))).toEqual([]);
  expect(named.filter((prefix) => !OWN_OBJECTS.some((key) => key.startsWith(prefix)))).toEqual([]);
});

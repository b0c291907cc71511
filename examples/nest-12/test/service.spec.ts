import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { INestApplication } from '@nestjs/common';
import { AuthenticationModule } from 'load-data-service';
import { createApp } from 'load-data-service/app';
import { LoadDataClient } from 'load-data-service/client';
import { InMemoryFileStorage, InMemoryIdentityProvider, jwkOf, rsaKey, signToken } from 'load-data-service/testing';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { ReportsModule } from '../src/reports.module.js';

const ISSUER = 'https://login.example';
const AUDIENCE = 'load-data-api';
const key = rsaKey();
/** An access token with these permissions, such as the team's own issuer makes. */
const token = (...permissions: string[]): string =>
  signToken(key, { alg: 'RS256', kid: 'k' }, { iss: ISSUER, aud: AUDIENCE, sub: 'ada', exp: Math.floor(Date.now() / 1000) + 60, permissions });

// Every adapter is swapped: nothing is written to disk, and no other server is needed.
const storage = new InMemoryFileStorage();
let folder: string;
let app: INestApplication;
let baseUrl: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'team-'));
  app = await createApp({
    environment: { DATA_DIR: folder, LOG_LEVEL: 'silent' },
    fileStorage: storage,
    identityProvider: new InMemoryIdentityProvider(),
    authentication: AuthenticationModule.forRoot({ issuer: ISSUER, audience: AUDIENCE, keySet: { load: () => Promise.resolve({ keys: [jwkOf(key, { kid: 'k' })] }) } }),
    imports: [ReportsModule.of({ byCustomer: () => Promise.resolve({ acme: storage.uploads.length }) })],
  });
  await app.listen(0, '127.0.0.1');
  baseUrl = await app.getUrl();
});
afterAll(async () => {
  await app.close();
  await rm(folder, { recursive: true });
});
beforeEach(() => {
  storage.recover();
});

const upload = () => new LoadDataClient({ baseUrl, attempts: 1 }).uploadHistorical({ customerId: 'acme', filename: 'load.csv', manufacturer: 'Acme', file: 'a;b\n' });
const report = (bearer: string) => fetch(`${baseUrl}/reports/uploads`, { headers: { Authorization: `Bearer ${bearer}` } });

it('counts what was uploaded, for those who may read reports', async () => {
  await upload();
  const answer = await report(token('read:reports'));
  expect([answer.status, await answer.json()]).toEqual([200, { acme: 1 }]);
});

it.each([
  ['no token', 'x'],
  ['another permission', token('read:users')],
])('refuses a report with %s', async (_, bearer) => {
  const answer = await report(bearer);
  expect([answer.status, await answer.json()]).toEqual([403, { error: 'Unauthorized.' }]);
});

it('answers 500 when the store fails', async () => {
  storage.failWith(new Error('disk full'));
  await expect(upload()).rejects.toMatchObject({ status: 500, error: 'Internal server error.' });
});

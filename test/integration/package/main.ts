import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { NestFactory } from '@nestjs/core';
import { createApp } from 'load-data-service/app';
import { InMemoryFileStorage } from 'load-data-service/testing';
import { AppModule, storage, token } from './app.module.js';

const QUERY = 'customer_id=a&filename=b.csv&manufacturer=c';

async function upload(url: string): Promise<void> {
  const answer = await fetch(`${url}/ingestHistoricalLoadData/upload_historical?${QUERY}`, {
    method: 'POST',
    headers: { 'Content-Type': 'text/csv' },
    body: 'a,b',
  });
  assert.deepEqual([answer.status, await answer.json()], [200, { status: 'success', message: 'Data uploaded successfully.' }]);
}

async function createUser(url: string, bearer: string): Promise<void> {
  const answer = await fetch(`${url}/idpManagementBackend/create-user`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${bearer}` },
    body: JSON.stringify({ email: 'ada@grid.example', roles: [] }),
  });
  assert.equal(answer.status, 201, await answer.text());
}

async function asGuest(): Promise<void> {
  const app = await NestFactory.create(AppModule);
  await app.listen(0, '127.0.0.1');
  const url = await app.getUrl();
  await upload(url);
  assert.equal(storage.uploads.length, 1);
  await createUser(url, token('create:users'));
  const refused = await fetch(`${url}/idpManagementBackend/users`, { headers: { Authorization: `Bearer ${token()}` } });
  assert.deepEqual([refused.status, await refused.json()], [403, { error: 'Unauthorized.' }]);
  const own = await fetch(`${url}/team`, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: '{"a":1}' });
  assert.deepEqual([own.status, await own.json()], [201, { body: { a: 1 } }]);
  assert.equal((await fetch(`${url}/team/conflict`)).status, 409);
  await app.close();
}

async function asWhole(): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'load-data-'));
  const secret = 'secret-of-the-administrator';
  const uploads = new InMemoryFileStorage();
  const environment = { DATA_DIR: directory, LOG_LEVEL: 'warn', EMBEDDED_ADMIN_SECRET: secret, RATE_LIMIT_PER_MINUTE: '100' };
  const app = await createApp({ environment, fileStorage: uploads });
  await app.listen(0, '127.0.0.1');
  const url = await app.getUrl();
  await upload(url);
  assert.equal(uploads.uploads.length, 1);
  const issued = await fetch(`${url}/idp/token`, {
    method: 'POST',
    headers: { Authorization: `Basic ${Buffer.from(`admin:${secret}`).toString('base64')}` },
    body: new URLSearchParams({ grant_type: 'client_credentials' }),
  });
  const { access_token: bearer } = (await issued.json()) as { access_token: string };
  await createUser(url, bearer);
  for (const path of ['/health/ready', '/docs-json', '/docs', '/metrics']) assert.equal((await fetch(url + path)).status, 200, path);
  await app.close();
  rmSync(directory, { recursive: true });
}

void asGuest()
  .then(asWhole)
  .then(() => {
    console.log('it works');
  });

import { NestFactory } from '@nestjs/core';
import type { INestApplication } from '@nestjs/common';
import { LoadDataClient } from 'load-data-service/client';
import { InMemoryFileStorage, jwkOf, rsaKey, signToken } from 'load-data-service/testing';
import { AppModule } from '../src/app.module';

const ISSUER = 'https://login.example';
const AUDIENCE = 'load-data-api';
const key = rsaKey();
const token = (...permissions: string[]): string =>
  signToken(key, { alg: 'RS256', kid: 'k' }, { iss: ISSUER, aud: AUDIENCE, sub: 'ada', exp: Math.floor(Date.now() / 1000) + 60, permissions });

const storage = new InMemoryFileStorage();
let app: INestApplication;
let baseUrl: string;
beforeAll(async () => {
  const keySet = { load: () => Promise.resolve({ keys: [jwkOf(key, { kid: 'k' })] }) };
  app = await NestFactory.create(AppModule.of(storage, { issuer: ISSUER, audience: AUDIENCE, keySet }), { logger: false });
  await app.listen(0, '127.0.0.1');
  baseUrl = await app.getUrl();
});
afterAll(() => app.close());

const upload = () => new LoadDataClient({ baseUrl, attempts: 1 }).uploadHistorical({ customerId: 'acme', filename: 'load.csv', manufacturer: 'Acme', file: 'a;b\n' });
const health = async (bearer: string) => {
  const answer = await fetch(`${baseUrl}/reports/storage`, { headers: { Authorization: `Bearer ${bearer}` } });
  return [answer.status, await answer.json()];
};

it('stores what is uploaded', async () => {
  await upload();
  expect(storage.uploads).toMatchObject([{ customerId: 'acme', filename: 'load.csv' }]);
});

it('reports to those who may read reports', async () => {
  expect(await health(token('read:reports'))).toEqual([200, { healthy: true }]);
  expect(await health(token('read:users'))).toEqual([403, { error: 'Unauthorized.' }]);
});

it('says that the store fails', async () => {
  storage.failWith(new Error('disk full'));
  await expect(upload()).rejects.toMatchObject({ status: 500, error: 'Internal server error.' });
  expect(await health(token('read:reports'))).toEqual([200, { healthy: false }]);
  storage.recover();
});

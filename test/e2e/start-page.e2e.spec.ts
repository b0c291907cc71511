import { describe, expect, it } from 'vitest';
import { startService } from '../support/service.js';

const BROWSER = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8';

describe.each([
  ['without a base path', {}, ['/'], '/docs'],
  ['with a base path', { BASE_PATH: '/grid/v1' }, ['/grid/v1', '/grid/v1/'], '/grid/v1/docs'],
  ['behind a proxy that adds a prefix', { BASE_PATH: '/v1', PUBLIC_URL: 'https://grid.example/api/v1' }, ['/v1', '/v1/'], '/api/v1/docs'],
])('the start page %s', (_, variables, paths, docs) => {
  it('sends a browser to Swagger UI, and is unknown to other clients', async () => {
    const service = await startService(variables);
    const ask = (path: string, accept: string, method = 'GET'): Promise<Response> =>
      fetch(`http://127.0.0.1:${String(service.port)}${path}`, { method, headers: { Accept: accept }, redirect: 'manual' });
    for (const path of paths) {
      for (const [method, accept] of [['GET', BROWSER], ['GET', 'text/html'], ['HEAD', 'application/json, Text/HTML;q=0.5']] as const) {
        const answer = await ask(path, accept, method);
        expect([method, path, answer.status, answer.headers.get('location')]).toEqual([method, path, 302, docs]);
        expect(answer.headers.get('x-request-id')).not.toBeNull();
      }
      for (const [method, accept] of [['GET', '*/*'], ['GET', 'application/json'], ['GET', 'text/html-like'], ['POST', BROWSER]] as const) {
        const answer = await ask(path, accept, method);
        expect([method, path, accept, answer.status, await answer.text()]).toEqual([method, path, accept, 404, '{"error":"Not found."}']);
      }
    }
    await service.close();
  });
});

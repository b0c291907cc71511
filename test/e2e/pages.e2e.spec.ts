import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { exchange } from '../support/raw.js';
import { type RunningService, startService } from '../support/service.js';

const KEYCLOAK = { IDENTITY_PROVIDER: 'keycloak', KEYCLOAK_URL: 'http://127.0.0.1:9', KEYCLOAK_REALM: 'r', KEYCLOAK_CLIENT_ID: 'c', KEYCLOAK_CLIENT_SECRET: 's' };
const AUTH0 = { IDENTITY_PROVIDER: 'auth0', AUTH0_DOMAIN: 'http://127.0.0.1:9', AUTH0_CLIENT_ID: 'c', AUTH0_CLIENT_SECRET: 's', OIDC_AUDIENCE: 'a' };

/** The targets of a Markdown text's links, without their anchors, and without links within the text. */
const linksOf = (markdown: string): string[] => [...markdown.matchAll(/\]\(([^)#]+)[^)]*\)/g)].map(([, target = '']) => target);

describe.each<[string, Record<string, string>, string, readonly string[]]>([
  ['by default', {}, '', []],
  ['with Keycloak, below a base path', { ...KEYCLOAK, BASE_PATH: '/grid/v1' }, '/grid/v1', ['docs/keycloak.md']],
  ['with Auth0, behind a proxy that adds a prefix', { ...AUTH0, BASE_PATH: '/v1', PUBLIC_URL: 'https://grid.example/api/v1' }, '/api/v1', ['docs/auth0.md']],
])("the description of the API %s", (_, variables, path, more) => {
  it('links to pages of the package, which are served as text', async () => {
    const service = await startService(variables);
    const local = `http://127.0.0.1:${service.port}${variables.BASE_PATH ?? ''}`;
    const { info } = (await (await fetch(`${local}/docs-json`)).json()) as { info: { description: string } };
    const links = linksOf(info.description).map((link) => [link.startsWith(`${path}/`), link.slice(path.length)] as const);
    expect(links.filter(([isBelowPath]) => !isBelowPath)).toEqual([]);
    const pages = [];
    for (const [, link] of links) {
      const answer = await fetch(local + link);
      expect([link, answer.status]).toEqual([link, ['/health/ready', '/docs-json', '/metrics'].includes(link) ? expect.any(Number) : 200]);
      const [, page] = /^\/docs\/pages\/(.+)$/.exec(link) ?? [];
      if (page === undefined) continue;
      pages.push(page);
      expect(answer.headers.get('content-type')).toBe('text/plain; charset=utf-8');
      expect(answer.headers.get('x-content-type-options')).toBe('nosniff');
      expect(answer.headers.get('content-security-policy')).toContain("default-src 'none'");
      expect(answer.headers.get('referrer-policy')).toBe('no-referrer');
      expect(await answer.text()).toBe(await readFile(page, 'utf8'));
    }
    expect(pages.toSorted()).toEqual([...more, 'README.md', 'docs/README.md', 'docs/clients.md', 'docs/managing-uploads.md', 'docs/troubleshooting.md'].toSorted());
    await service.close();
  });
});

describe('the pages', () => {
  let service: RunningService;
  beforeAll(async () => {
    service = await startService();
  });
  afterAll(() => service.close());

  it('are all pages of docs, and their links to other pages lead to these', async () => {
    const pages = ['README.md', ...(await readdir('docs', { recursive: true })).filter((name) => name.endsWith('.md')).map((name) => join('docs', name))];
    expect(pages.length).toBeGreaterThan(20);
    for (const page of pages) {
      const url = `${service.url}/docs/pages/${page}`;
      const answer = await fetch(url);
      expect([page, answer.status]).toEqual([page, 200]);
      const links = linksOf(await answer.text()).filter((link) => !link.startsWith('http') && link.endsWith('.md') && !link.includes('deploy/'));
      for (const link of links) expect([page, link, (await fetch(new URL(link, url), { method: 'HEAD' })).status]).toEqual([page, link, 200]);
    }
  });

  it.each([
    ...['', '/', '/docs', '/docs/', '/docs/adr', '/docs/absent.md', '/README.md/x', '/package.json', '/src/main.ts', '/node_modules/express/package.json', '/docs/%', '/docs/%00'],
    ...['/../../package.json', '/docs/../package.json', '/docs/..%2fpackage.json', '/docs/%2e%2e/package.json', '/docs/..%5cpackage.json', '/README.md/../package.json', '//etc/passwd'],
  ])('are nothing else of the package: GET /docs/pages%s', async (path) => {
    const answer = await exchange(service.port, `GET /docs/pages${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
    expect([answer.status, answer.body]).toEqual([404, '{"error":"Not found."}']);
  });

  it('are only read', async () => {
    const answer = await fetch(`${service.url}/docs/pages/README.md`, { method: 'POST' });
    expect([answer.status, await answer.text()]).toEqual([404, '{"error":"Not found."}']);
  });
});

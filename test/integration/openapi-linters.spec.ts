import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runNodeTool } from '../clients/tools.mjs';
import { startService } from '../support/service.js';

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'openapi-'));
  await writeFile(join(directory, 'spectral.yaml'), 'extends: ["spectral:oas"]\n');
});
afterAll(() => rm(directory, { recursive: true }));

const KEYCLOAK = {
  IDENTITY_PROVIDER: 'keycloak',
  KEYCLOAK_URL: 'http://127.0.0.1:9',
  KEYCLOAK_REALM: 'r',
  KEYCLOAK_CLIENT_ID: 'c',
  KEYCLOAK_CLIENT_SECRET: 's',
  SWAGGER_UI_CLIENT_ID: 'ui',
};

describe.each<[string, Record<string, string>]>([
  ['by default', {}],
  ['with all options on', { BASE_PATH: '/api/v1', INGESTION_AUTH: 'required', RATE_LIMIT_PER_MINUTE: '1000' }],
  ['with another identity provider', KEYCLOAK],
])('the OpenAPI document %s', (_, variables) => {
  let file: string;
  beforeAll(async () => {
    const service = await startService(variables);
    file = join(directory, 'openapi.json');
    await writeFile(file, await (await fetch(`${service.url}/docs-json`)).text());
    await service.close();
  });

  it("violates none of Redocly's recommended rules", async () => {
    const report = await runNodeTool('@redocly/cli/bin/cli.js', ['lint', '--format=json', file], directory);
    const { totals, problems } = JSON.parse(report.slice(report.indexOf('{'), report.lastIndexOf('}') + 1)) as { totals: object; problems: object[] };
    expect(problems).toEqual([]);
    expect(totals).toMatchObject({ errors: 0, warnings: 0 });
  });

  it("violates none of Spectral's recommended rules", async () => {
    const report = await runNodeTool('@stoplight/spectral-cli/dist/index.js', ['lint', '--format=json', '--fail-severity=hint', '--ruleset=spectral.yaml', file], directory);
    expect(report.trim()).toMatch(/^(\[\]|No results.*)/);
  });
});

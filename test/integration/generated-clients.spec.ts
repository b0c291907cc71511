import { mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { runNodeTool, runPython, toolPath } from '../clients/tools.mjs';
import { type RunningService, startService } from '../support/service.js';

/** Bytes of a file that aren't valid text in any encoding. */
const BYTES = Uint8Array.from({ length: 1_000 }, (_, index) => (index * 7) % 256);
const QUERY = { customer_id: 'acme-energy', filename: 'load.bin', manufacturer: 'Landis+Gyr' };
const ADDITIONAL = 'meter 7, "Süd"';

let service: RunningService;
/** A directory in the package for the generated code, so that Vitest compiles this code. */
let directory: string;
beforeAll(async () => {
  service = await startService();
  directory = await mkdtemp(join(process.cwd(), 'dist', 'generated-clients-'));
  await symlink(toolPath(), join(directory, 'node_modules'));
});
afterAll(async () => {
  await service.close();
  await rm(directory, { recursive: true });
});

async function documentFile(uploads?: string): Promise<string> {
  const file = join(directory, `openapi-${uploads ?? 'whole'}.json`);
  await writeFile(file, await (await fetch(`${service.url}/docs-json${uploads === undefined ? '' : `?uploads=${uploads}`}`)).text());
  return file;
}

let before: number;
beforeEach(async () => {
  before = (await service.lines()).length;
});

/** Expects that one upload was stored since the test began, with these bytes as its file and this additional data. */
async function expectStored(bytes: Uint8Array | null, additionalData: string | null): Promise<void> {
  const added = (await service.lines()).sort((one, other) => String(one.upload_id).localeCompare(String(other.upload_id))).slice(before);
  expect(added).toMatchObject([{ ...QUERY, additional_data: additionalData }]);
  const [{ content_path: path } = {}] = added;
  expect(typeof path === 'string' ? new Uint8Array(await readFile(join(service.dataDirectory, path))) : path).toEqual(bytes);
}

type Call = (...parameters: unknown[]) => Promise<{ status?: number; response?: Response; error?: unknown }>;
const imported = async <Module>(...path: string[]): Promise<Module> => (await import(/* @vite-ignore */ join(directory, ...path))) as Module;
const blob = (): Blob => new Blob([BYTES]);

/** What the tools printed that have generated a client, by the client's folder in `directory`. */
const generated = new Map<string, string>();

/** Generates a client in a folder, unless an earlier test has. Resolves to what the tool prints. */
async function once(folder: string, generate: () => Promise<string>): Promise<string> {
  const said = generated.get(folder) ?? (await generate());
  generated.set(folder, said);
  return said;
}

/** Generates the client of Hey API from the document, in the folder `hey-api-<uploads>`. Resolves to what the tool prints. */
function heyApi(uploads?: string): Promise<string> {
  const folder = `hey-api-${uploads ?? 'whole'}`;
  return once(folder, async () =>
    runNodeTool('@hey-api/openapi-ts/bin/run.js', ['-i', await documentFile(uploads), '-o', join(directory, folder), '-c', '@hey-api/client-fetch', '--no-log-file']),
  );
}

/** Generates the client of orval from the document, in the folder `orval-<name>`. Resolves to what the tool prints. */
function orval(name: string, uploads?: string, override = {}): Promise<string> {
  return once(`orval-${name}`, async () => {
    const output = { target: `./orval-${name}/api.ts`, client: 'fetch', baseUrl: service.url, override };
    await writeFile(join(directory, `orval-${name}.config.mjs`), `export default ${JSON.stringify({ api: { input: await documentFile(uploads), output } })};`);
    return runNodeTool('orval/dist/bin/orval.mjs', ['--config', `orval-${name}.config.mjs`], directory);
  });
}
const orvalSplit = (): Promise<string> => orval('split', undefined, { splitByContentType: true });

const compile = (script: string): Promise<string> =>
  runNodeTool('typescript/bin/tsc', ['--noEmit', '--strict', '--skipLibCheck', '--module', 'esnext', '--moduleResolution', 'bundler', '--target', 'es2022', '--lib', 'es2022,dom,dom.iterable', script], directory);
/** Compiles a script. Rejects with the output of the compiler if there are errors. */
const compiled = (script: string): Promise<unknown> => compile(script).catch((error: unknown) => Promise.reject(new Error((error as { stdout: string }).stdout)));

it('load-data-service/client has the types of the document (-u updates them)', async () => {
  const { openapi, info, components } = JSON.parse(await readFile(await documentFile(), 'utf8')) as Record<string, unknown>;
  const file = join(directory, 'schemas.json');
  await writeFile(file, JSON.stringify({ openapi, info, paths: {}, components: { schemas: (components as { schemas: object }).schemas } }));
  await runNodeTool('openapi-typescript/bin/cli.js', [file, '-o', join(directory, 'schemas.ts')]);
  await expect(await readFile(join(directory, 'schemas.ts'), 'utf8')).toMatchFileSnapshot('../../src/client/api-types.ts');
});

describe('openapi-typescript, with openapi-fetch', () => {
  let post: (path: string, options: object) => Promise<{ response: Response }>;
  beforeAll(async () => {
    const said = await runNodeTool('openapi-typescript/bin/cli.js', [await documentFile(), '-o', join(directory, 'types.ts')]);
    expect(said).not.toMatch(/warn|error/i);
    const { default: createClient } = (await import(toolPath('openapi-fetch', 'dist', 'index.mjs'))) as { default: (options: object) => { POST: typeof post } };
    const client = createClient({ baseUrl: service.url });
    post = (path, options) => client.POST(path, options);
  });
  const path = '/ingestHistoricalLoadData/upload_historical';

  it('stores a form', async () => {
    const body = new FormData();
    body.append('file', blob());
    body.append('additional_data', ADDITIONAL);
    expect((await post(path, { params: { query: QUERY }, body })).response.status).toBe(200);
    await expectStored(BYTES, ADDITIONAL);
  });

  it('stores bytes', async () => {
    const options = { params: { query: QUERY }, body: blob(), bodySerializer: (body: Blob) => body, headers: { 'Content-Type': 'application/octet-stream' } };
    expect((await post(path, options)).response.status).toBe(200);
    await expectStored(BYTES, null);
  });

  it('stores JSON', async () => {
    expect((await post(path, { params: { query: QUERY }, body: { additional_data: ADDITIONAL } })).response.status).toBe(200);
    await expectStored(null, ADDITIONAL);
  });

  // docs/clients.md warns of both.
  it('sends a Blob without a serializer as {}, and TypeScript accepts it, as it does the call of docs/clients.md', async () => {
    expect((await post(path, { params: { query: QUERY }, body: blob() })).response.status).toBe(200);
    await expectStored(null, null);
    const [, documented = ''] = /### openapi-typescript[^]*?```ts\n([^]*?)```/.exec(await readFile('docs/clients.md', 'utf8')) ?? [];
    const script = `${documented.replace('./load-data', './types')}declare const blob: Blob;\nawait client.POST('${path}', { params, body: blob });\n`;
    await writeFile(join(directory, 'documented.ts'), script);
    expect(script).toContain('bodySerializer');
    await compiled('documented.ts');
  });
});

describe.each([
  ['form', { file: blob(), additional_data: ADDITIONAL }, BYTES, ADDITIONAL],
  ['bytes', blob(), BYTES, null],
  ['json', { additional_data: ADDITIONAL }, null, ADDITIONAL],
] as const)('hey-api, with ?uploads=%s', (way, body, bytes, additionalData) => {
  it('stores the plain call', async () => {
    expect(await heyApi(way)).not.toMatch(/warn|error/i);
    const { uploadHistorical } = await imported<{ uploadHistorical: Call }>(`hey-api-${way}`, 'sdk.gen.ts');
    const { response, error } = await uploadHistorical({ baseUrl: service.url, query: QUERY, body });
    expect([response?.status, error]).toEqual([200, undefined]);
    await expectStored(bytes, additionalData);
  });
});

describe('orval, with splitByContentType', () => {
  let api: Record<string, Call>;
  beforeAll(async () => {
    expect(await orvalSplit()).not.toMatch(/warn|error/i);
    api = await imported('orval-split', 'api.ts');
  });

  it.each([
    ['a form', 'uploadHistoricalWithFormData', { file: blob(), additional_data: ADDITIONAL }, BYTES, ADDITIONAL],
    ['bytes', 'uploadHistoricalWithBlob', blob(), BYTES, null],
    ['JSON', 'uploadHistoricalWithJson', { additional_data: ADDITIONAL }, null, ADDITIONAL],
  ] as const)('stores %s', async (_, name, body, bytes, additionalData) => {
    expect(Object.keys(api)).toContain(name);
    expect((await api[name]?.(QUERY, body))?.status).toBe(200);
    await expectStored(bytes, additionalData);
  });
});

describe.each([
  ['form', { file: blob(), additional_data: ADDITIONAL }, BYTES, ADDITIONAL],
  ['bytes', blob(), BYTES, null],
  ['json', { additional_data: ADDITIONAL }, null, ADDITIONAL],
] as const)('orval, with ?uploads=%s', (way, body, bytes, additionalData) => {
  it('stores the plain call', async () => {
    expect(await orval(way, way)).not.toMatch(/warn|error/i);
    const { uploadHistorical } = await imported<{ uploadHistorical: Call }>(`orval-${way}`, 'api.ts');
    expect((await uploadHistorical(QUERY, body)).status).toBe(200);
    await expectStored(bytes, additionalData);
  });
});

it('TypeScript accepts the plain calls of Hey API and of orval', async () => {
  const ways = ['form', 'bytes', 'json'];
  await orvalSplit();
  for (const way of ways) await Promise.all([heyApi(way), orval(way, way)]);
  const bodies = "{ form: { file: new Blob(), additional_data: 'meter 7' }, bytes: new Blob(), json: { additional_data: 'meter 7' } }";
  await writeFile(join(directory, 'plain-calls.ts'), [
    "import { uploadHistoricalWithBlob, uploadHistoricalWithFormData, uploadHistoricalWithJson } from './orval-split/api';",
    ...ways.map((way) => `import { uploadHistorical as ${way}OfHeyApi } from './hey-api-${way}/sdk.gen';`),
    ...ways.map((way) => `import { uploadHistorical as ${way}OfOrval } from './orval-${way}/api';`),
    `const query = ${JSON.stringify(QUERY)};`,
    `const { form, bytes, json } = ${bodies};`,
    'void [uploadHistoricalWithFormData(query, form), uploadHistoricalWithBlob(query, bytes), uploadHistoricalWithJson(query, json)];',
    ...ways.map((way) => `void [${way}OfHeyApi({ query, body: ${way} }), ${way}OfOrval(query, ${way})];`),
  ].join('\n'));
  await compiled('plain-calls.ts');
});

/**
 * Some generators know only one type of body for each operation. Their clients would send a body of another type
 * without its file: a Blob or a form as `{}`, which the service answers with 200. So code that uses such a client,
 * generated from the whole document, with another type of body must not compile.
 */
describe('the whole document, for generators that need ?uploads=', () => {
  it('lets TypeScript refuse a Blob and a form that hey-api would send as JSON', async () => {
    await heyApi();
    const bodies = ['{ additional_data: "meter 7" }', 'new Blob()', '{ file: new Blob() }', 'new FormData()'];
    const calls = bodies.map((body) => `void uploadHistorical({ query: ${JSON.stringify(QUERY)}, body: ${body} });`);
    await writeFile(join(directory, 'calls.ts'), ["import { uploadHistorical } from './hey-api-whole/sdk.gen';", ...calls].join('\n'));
    const errors = await compiled('calls.ts').catch((error: unknown) => (error as Error).message.trim().split('\n'));
    expect(errors).toEqual([
      expect.stringMatching(/^calls\.ts\(3,.*'Blob' has no properties in common with type 'UploadJson'/),
      expect.stringMatching(/^calls\.ts\(4,.*'file' does not exist in type 'UploadJson'/),
      expect.stringMatching(/^calls\.ts\(5,.*'FormData' has no properties in common with type 'UploadJson'/),
    ]);
  }, 120_000);

  it('lets TypeScript refuse the functions of orval', async () => {
    await orval('whole');
    await expect(compiled('orval-whole/api.ts')).rejects.toThrow(/'UploadForm' is not assignable to type 'BodyInit/);
  }, 120_000);
});

describe('openapi-python-client', () => {
  beforeAll(async () => {
    const said = await runPython(['-m', 'openapi_python_client', 'generate', '--path', await documentFile(), '--meta', 'none', '--output-path', join(directory, 'load_data'), '--overwrite']);
    expect(said).not.toMatch(/warn|error/i);
  });

  const script = (body: string): string => `
import io, sys
from load_data import Client
from load_data.api.historical_ingestion import upload_historical
from load_data.models import UploadForm, UploadJson
from load_data.types import File
file = File(payload=io.BytesIO(bytes((index * 7) % 256 for index in range(1000))), file_name="load.bin")
answer = upload_historical.sync_detailed(client=Client(base_url="${service.url}"), customer_id="acme-energy", filename="load.bin", manufacturer="Landis+Gyr", body=${body})
print(int(answer.status_code))
`;

  it.each([
    ['a form', `UploadForm(file=file, additional_data=${JSON.stringify(ADDITIONAL)})`, BYTES, ADDITIONAL],
    ['bytes', 'file', BYTES, null],
    ['JSON', `UploadJson(additional_data=${JSON.stringify(ADDITIONAL)})`, null, ADDITIONAL],
  ])('stores %s', async (_, body, bytes, additionalData) => {
    expect((await runPython(['-c', script(body)], directory)).trim()).toBe('200');
    await expectStored(bytes, additionalData);
  });
});

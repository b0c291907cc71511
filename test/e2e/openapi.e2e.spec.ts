import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { AccessTokenVerifier } from '../../src/authentication/access-token.js';
import { ServiceError } from '../../src/common/service-error.js';
import { IdentityProvider } from '../../src/identity-management/application/ports/identity-provider.port.js';
import { ProviderError, ProviderUnavailable } from '../../src/identity-management/domain/errors.js';
import { FileStorage } from '../../src/ingestion/application/ports/file-storage.port.js';
import { InMemoryFileStorage } from '../../src/testing/in-memory.file-storage.js';
import { InMemoryIdentityProvider } from '../../src/testing/in-memory.identity-provider.js';
import { anUploadDraft } from '../../src/testing/upload-draft.builder.js';
import { exchange } from '../support/raw.js';
import { type RunningService, startService } from '../support/service.js';

interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly format?: string;
  readonly enum?: readonly unknown[];
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly pattern?: string;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly example?: unknown;
}
interface MediaType {
  readonly schema?: Schema;
  readonly example?: unknown;
  readonly examples?: Readonly<Record<string, { readonly value: unknown }>>;
}
interface DocumentedAnswer {
  readonly description: string;
  readonly headers?: Readonly<Record<string, { readonly schema: Schema }>>;
  readonly content?: Readonly<Record<string, MediaType>>;
}
interface Operation {
  readonly operationId: string;
  readonly summary: string;
  readonly tags: readonly string[];
  readonly parameters?: readonly { name: string; in: string; required: boolean; schema: Schema; example?: unknown }[];
  readonly requestBody?: { readonly required?: boolean; readonly content: Readonly<Record<string, MediaType>> };
  readonly responses: Readonly<Record<string, DocumentedAnswer>>;
  readonly security?: readonly Readonly<Record<string, readonly string[]>>[];
}
interface Document {
  readonly servers: readonly { readonly url: string }[];
  readonly tags?: readonly { readonly name: string }[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: {
    readonly schemas: Readonly<Record<string, Schema>>;
    readonly securitySchemes: Readonly<Record<string, { type: string; flows?: { clientCredentials: { tokenUrl: string } } }>>;
  };
}

const BASE = '/idpManagementBackend';
const NOT_THERE = 'Invalid user_id or role_id.';

/**
 * The operations: method, path, the query of a request that succeeds, a body that succeeds (`good`), and the status of
 * that answer. `refusal` is the error text for an invalid body, or for an invalid query of a list or a removal.
 */
const OPERATIONS = [
  { method: 'post', path: '/ingestHistoricalLoadData/upload_historical', query: '?customer_id=a&filename=b&manufacturer=c', good: {}, status: 200, refusal: 'Invalid request body.' },
  { method: 'post', path: '/ingestNowcastLoadData/upload_nowcast', query: '?customer_id=a&filename=b&manufacturer=c', good: {}, status: 200, refusal: 'Invalid request body.' },
  { method: 'get', path: '/uploads', query: '', good: undefined, status: 200, refusal: 'Invalid or missing query parameter.' },
  { method: 'get', path: '/uploads/{upload_id}', query: '', good: undefined, status: 200, refusal: undefined },
  { method: 'get', path: '/uploads/{upload_id}/content', query: '', good: undefined, status: 200, refusal: undefined },
  { method: 'delete', path: '/uploads/{upload_id}', query: '', good: undefined, status: 204, refusal: undefined },
  { method: 'delete', path: '/uploads', query: '?customer_id=customer-1', good: undefined, status: 200, refusal: 'Invalid or missing query parameter.' },
  { method: 'post', path: `${BASE}/assign-role`, query: '', good: { user_id: 'USER', role_id: 'ROLE' }, status: 200, refusal: NOT_THERE },
  { method: 'post', path: `${BASE}/create-role`, query: '', good: { role_name: 'a', permissions: ['a:b'] }, status: 201, refusal: 'Invalid role_name or permissions.' },
  { method: 'post', path: `${BASE}/create-user`, query: '', good: { email: 'a@b.example', roles: [] }, status: 201, refusal: 'Invalid email or roles.' },
  { method: 'post', path: `${BASE}/update-user`, query: '', good: { user_id: 'USER', new_name: 'a' }, status: 200, refusal: 'Invalid user_id or new_name.' },
  { method: 'get', path: `${BASE}/roles`, query: '', good: undefined, status: 200, refusal: undefined },
  { method: 'get', path: `${BASE}/users`, query: '', good: undefined, status: 200, refusal: undefined },
] as const;
type Served = (typeof OPERATIONS)[number];
const isUpload = ({ path }: Served): boolean => path.startsWith('/ingest');
const isOfStored = ({ path }: Served): boolean => path.startsWith('/uploads');
const isContent = ({ path }: Served): boolean => path.endsWith('/content');
const isIdentity = ({ path }: Served): boolean => path.startsWith(BASE);
const successesOf = (operation: Served): readonly number[] => (isContent(operation) ? [200, 206, 304] : [operation.status]);

const documentOf = async (service: RunningService): Promise<Document> => (await (await fetch(`${service.url}/docs-json`)).json()) as Document;
const operationOf = (document: Document, { path, method }: Served): Operation => {
  const operation = document.paths[path]?.[method];
  if (!operation) throw new Error(`${method} ${path} is not documented.`);
  return operation;
};

/**
 * Describes the places where a value violates a schema of the document. Members that aren't in the schema are
 * violations too.
 */
function mismatches(document: Document, given: Schema, value: unknown, at = '$'): string[] {
  const schema = given.$ref === undefined ? given : (document.components.schemas[given.$ref.replace('#/components/schemas/', '')] ?? {});
  if (value === null && schema.type?.includes('null')) return [];
  if (schema.enum && !schema.enum.includes(value)) return [`${at}: ${JSON.stringify(value)} is none of ${schema.enum.join()}`];
  switch ([schema.type].flat().filter((type) => type !== 'null').join()) {
    case 'string': {
      if (typeof value !== 'string') return [`${at}: no text`];
      const tooLong = value.length < (schema.minLength ?? 0) || value.length > (schema.maxLength ?? Infinity);
      return tooLong || !new RegExp(schema.pattern ?? '', 'u').test(value) ? [`${at}: ${value}`] : [];
    }
    case 'integer':
      return Number.isInteger(Number(value)) ? [] : [`${at}: no whole number`];
    case 'array': {
      if (!Array.isArray(value)) return [`${at}: no array`];
      const fits = value.length >= (schema.minItems ?? 0) && value.length <= (schema.maxItems ?? Infinity);
      return fits ? value.flatMap((item, index) => mismatches(document, schema.items ?? {}, item, `${at}[${index}]`)) : [`${at}: ${value.length} items`];
    }
    case 'object': {
      if (typeof value !== 'object' || value === null || Array.isArray(value)) return [`${at}: no object`];
      const absent = (schema.required ?? []).filter((name) => !Object.hasOwn(value, name)).map((name) => `${at}.${name}: absent`);
      const members = Object.entries(value).flatMap(([name, member]) => {
        const property = schema.properties?.[name];
        return property ? mismatches(document, property, member, `${at}.${name}`) : [`${at}.${name}: unknown`];
      });
      return [...absent, ...members];
    }
    default:
      return [`${at}: the schema has no type`];
  }
}

/**
 * The kinds of OpenAPI 3.1 objects that the document contains, and the kind of each of their members. `!` after a name:
 * the member is required. `*`: a member with any name.
 */
const SHAPES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  Document: { 'openapi!': 'version', 'info!': 'Info', 'paths!': 'Paths', servers: '[Server', tags: '[Tag', components: 'Components' },
  Info: { 'title!': 'text', 'version!': 'text', 'description!': 'text', 'contact!': 'Contact', 'license!': 'License' },
  Contact: { 'name!': 'text' },
  License: { 'name!': 'text', 'identifier!': 'text' },
  Server: { 'url!': 'text', description: 'text' },
  Tag: { 'name!': 'text', 'description!': 'text' },
  Paths: { '*': 'PathItem' },
  PathItem: { get: 'Operation', post: 'Operation', delete: 'Operation' },
  Operation: {
    'operationId!': 'text',
    'responses!': 'Responses',
    'summary!': 'text',
    'tags!': '[text',
    'description!': 'text',
    parameters: '[Parameter',
    requestBody: 'RequestBody',
    'security!': '[Security',
  },
  Parameter: { 'name!': 'text', 'in!': 'place', 'schema!': 'Schema', required: 'boolean', description: 'text', example: 'any' },
  RequestBody: { 'content!': 'Content', required: 'boolean', description: 'text' },
  Content: { '*': 'MediaType' },
  MediaType: { 'schema!': 'Schema', example: 'any', examples: 'Examples', encoding: 'Encodings' },
  Encodings: { '*': 'Encoding' },
  Encoding: { contentType: 'text' },
  Examples: { '*': 'Example' },
  Example: { 'value!': 'any', summary: 'text', description: 'text' },
  Responses: { '*': 'Response' },
  Response: { 'description!': 'text', headers: 'Headers', content: 'Content' },
  Headers: { '*': 'Header' },
  Header: { 'schema!': 'Schema', description: 'text', required: 'boolean', example: 'any' },
  Security: { '*': '[text' },
  Components: { schemas: 'Schemas', securitySchemes: 'SecuritySchemes' },
  Schemas: { '*': 'Schema' },
  SecuritySchemes: { '*': 'SecurityScheme' },
  SecurityScheme: { 'type!': 'text', scheme: 'text', bearerFormat: 'text', description: 'text', flows: 'Flows' },
  Flows: { clientCredentials: 'Flow' },
  Flow: { 'tokenUrl!': 'text', 'scopes!': 'Scopes' },
  Scopes: { '*': 'text' },
  Schema: {
    $ref: 'reference',
    type: 'type',
    format: 'text',
    description: 'text',
    example: 'any',
    enum: '[any',
    required: '[text',
    properties: 'Schemas',
    items: 'Schema',
    additionalProperties: 'boolean',
    pattern: 'pattern',
    minLength: 'number',
    maxLength: 'number',
    minItems: 'number',
    maxItems: 'number',
    minimum: 'number',
    maximum: 'number',
    default: 'any',
  },
};

const isPattern = (value: unknown): boolean => {
  try {
    return new RegExp(String(value), 'u').source !== '';
  } catch {
    return false;
  }
};

function shapeProblems(document: Document, kind: string, value: unknown, at = '#'): string[] {
  const simple: Record<string, (value: unknown) => boolean> = {
    any: () => true,
    text: (text) => typeof text === 'string' && text !== '',
    boolean: (flag) => typeof flag === 'boolean',
    number: (number) => Number.isInteger(number) && Number(number) >= 0,
    version: (text) => /^3\.1\.\d$/.test(String(text)),
    place: (text) => ['query', 'header', 'path', 'cookie'].includes(String(text)),
    type: (types) => [types].flat().every((type) => ['object', 'array', 'string', 'integer', 'number', 'boolean', 'null'].includes(String(type))),
    reference: (text) => Object.hasOwn(document.components.schemas, String(text).replace('#/components/schemas/', '')),
    pattern: isPattern,
  };
  if (kind.startsWith('[')) {
    return Array.isArray(value) ? value.flatMap((item, index) => shapeProblems(document, kind.slice(1), item, `${at}/${index}`)) : [`${at}: no array`];
  }
  const check = simple[kind];
  if (check) return check(value) ? [] : [`${at}: ${JSON.stringify(value)} is no ${kind}`];
  if (typeof value !== 'object' || value === null) return [`${at}: no ${kind}`];
  const shape = SHAPES[kind] ?? {};
  const absent = Object.keys(shape).filter((name) => name.endsWith('!') && !Object.hasOwn(value, name.slice(0, -1)));
  return [
    ...absent.map((name) => `${at}/${name}: absent`),
    ...(kind === 'Schema' ? schemaProblems(value, at) : []),
    ...Object.entries(value).flatMap(([name, member]) => {
      const of = shape[name] ?? shape[`${name}!`] ?? shape['*'];
      return of === undefined ? [`${at}/${name}: unknown`] : shapeProblems(document, of, member, `${at}/${name}`);
    }),
  ];
}

function schemaProblems({ $ref, type, items, properties = {}, required = [], enum: values }: Schema, at: string): string[] {
  const unknown = required.filter((name) => !Object.hasOwn(properties, name));
  const problems = [
    [($ref === undefined) === (type === undefined), 'needs either $ref or type'],
    [(type === 'array') !== (items !== undefined), 'items go with an array'],
    [unknown.length > 0, `requires ${unknown.join()}, which is no property`],
    [values?.length === 0, 'allows nothing'],
  ] as const;
  return problems.filter(([wrong]) => wrong).map(([, problem]) => `${at}: ${problem}`);
}

describe.each([
  ['by default', {}],
  ['with all origins allowed', { CORS_ORIGINS: '*' }],
  ['with all options on', { BASE_PATH: '/api/v1', INGESTION_AUTH: 'required', RATE_LIMIT_PER_MINUTE: '1000' }],
])('the document %s', (_which, variables: Record<string, string>) => {
  let service: RunningService;
  let document: Document;
  beforeAll(async () => {
    service = await startService(variables);
    document = await documentOf(service);
  });
  afterAll(() => service.close());
  const basePath = variables.BASE_PATH ?? '';

  it('is OpenAPI 3', async () => {
    const answer = await fetch(`${service.url}/docs-json`);
    expect(answer.headers.get('content-type')).toMatch(/^application\/json/);
    expect(shapeProblems(document, 'Document', document)).toEqual([]);
    const names = Object.values(document.components).flatMap((named) => Object.keys(named));
    expect(names.filter((name) => !/^[A-Za-z0-9._-]+$/.test(name))).toEqual([]);
    const ids = OPERATIONS.map((operation) => operationOf(document, operation).operationId);
    expect(ids).toEqual([
      ...['uploadHistorical', 'uploadNowcast', 'listUploads', 'findUpload', 'downloadUpload', 'deleteUpload', 'deleteUploads'],
      ...['assignRole', 'createRole', 'createUser', 'updateUser', 'listRoles', 'listUsers'],
    ]);
  });

  it('has a name for each schema of a body', () => {
    const names = ['Error', 'NewRole', 'NewUser', 'Role', 'RoleAssignment', 'RoleCreated', 'RoleList', 'Success', 'Upload', 'UploadForm', 'UploadJson', 'UploadPage', 'UploadsRemoved', 'User', 'UserCreated', 'UserList', 'UserUpdate'];
    expect(Object.keys(document.components.schemas).sort()).toEqual(names);
    const bodies = OPERATIONS.flatMap((operation) => {
      const { requestBody, responses } = operationOf(document, operation);
      return [requestBody, ...Object.values(responses)].flatMap((body) => Object.entries(body?.content ?? {}));
    });
    const unnamed = bodies.filter(([type, { schema }]) => type !== 'application/octet-stream' && schema?.$ref === undefined);
    expect(unnamed).toEqual([]);
  });

  it('lists the operations and no others', () => {
    const listed = Object.entries(document.paths).flatMap(([path, operations]) => Object.keys(operations).map((method) => `${method} ${path}`));
    expect(listed.sort()).toEqual(OPERATIONS.map(({ method, path }) => `${method} ${path}`).sort());
  });

  it('puts each operation into one of the declared groups', () => {
    const declared = (document.tags ?? []).map(({ name }) => name);
    const found = Object.values(document.paths).flatMap((operations) => Object.values(operations).map(({ tags }) => tags));
    for (const tags of found) expect(declared.map((name) => [name])).toContainEqual(tags);
    expect(new Set(found.flat())).toEqual(new Set(declared));
  });

  it('contains the URL of the service', () => {
    expect(document.servers.map(({ url }) => new URL(url, service.url).href.replace(/\/$/, ''))).toEqual([service.url]);
  });

  it.each(OPERATIONS)('requires a token exactly where one is needed: $method $path', (operation) => {
    const { security = [] } = operationOf(document, operation);
    const needed = !isUpload(operation) || variables.INGESTION_AUTH === 'required';
    expect(security.length > 0).toBe(needed);
    for (const name of security.flatMap((requirement) => Object.keys(requirement))) {
      expect(document.components.securitySchemes).toHaveProperty(name);
    }
  });

  it.each(OPERATIONS)('has the statuses of this configuration: $method $path', (operation) => {
    const always = [...successesOf(operation), 400, 408, 431, 500];
    const ofUploads = isUpload(operation) ? [409, 413, 415, 422] : [];
    const ofStored = isOfStored(operation) ? [403, 404, 503, ...(isContent(operation) ? [416] : [])] : [];
    const ofIdentity = isIdentity(operation) ? [403, 502, 503] : [];
    const withBody = operation.method === 'post' && isIdentity(operation) ? [413, 415] : [];
    const authorized = isUpload(operation) && variables.INGESTION_AUTH ? [503] : [];
    const foreign = isUpload(operation) && (variables.INGESTION_AUTH || variables.CORS_ORIGINS !== '*') ? [403] : [];
    const limited = variables.RATE_LIMIT_PER_MINUTE ? [429] : [];
    const documented = Object.keys(operationOf(document, operation).responses).map(Number);
    expect(documented.sort()).toEqual([...always, ...ofUploads, ...ofStored, ...ofIdentity, ...withBody, ...authorized, ...foreign, ...limited].sort());
  });

  it.each(OPERATIONS.filter(isUpload))('has the three parameters, with examples: $path', (operation) => {
    const { parameters: all = [] } = operationOf(document, operation);
    const parameters = all.filter(({ in: place }) => place === 'query');
    expect(parameters.map(({ name, in: place, required, schema }) => [name, place, required, schema.type, schema.maxLength])).toEqual([
      ['customer_id', 'query', true, 'string', 128],
      ['filename', 'query', true, 'string', 255],
      ['manufacturer', 'query', true, 'string', 128],
    ]);
    const headers = all.filter(({ in: place }) => place === 'header').map(({ name, required }) => [name, required]);
    expect(headers).toEqual(['Idempotency-Key', 'X-Upload-Digest', 'Content-Digest', 'Repr-Digest'].map((name) => [name, false]));
    for (const { schema, example } of parameters) expect(mismatches(document, schema, example ?? schema.example)).toEqual([]);
    const [, { schema: filename } = {}] = parameters;
    expect(filename?.example).toBe(operation.path.includes('historical') ? 'nem12_multiple_meters.csv' : 'greenbutton_usage.xml');
  });

  it.each(OPERATIONS.filter(isOfStored))('has examples of parameters with which it succeeds: $method $path', async (operation) => {
    const { parameters = [] } = operationOf(document, operation);
    const names = ({ path, method }: Served): string[] => {
      if (path !== '/uploads') return ['upload_id', ...(path.endsWith('/content') ? ['Range', 'If-Range', 'If-None-Match'] : [])];
      return method === 'get' ? ['customer_id', 'kind', 'from', 'to', 'limit', 'page_token'] : ['customer_id', 'before'];
    };
    expect(parameters.map(({ name }) => name)).toEqual(names(operation));
    const examples = parameters.flatMap(({ name, schema }): [string, string][] => (typeof schema.example === 'string' ? [[name, schema.example]] : []));
    for (const { name, schema } of parameters) if (schema.example !== undefined) expect([name, mismatches(document, schema, schema.example)]).toEqual([name, []]);
    if (operation.path !== '/uploads') {
      expect(examples).toEqual([['upload_id', '0198c5a0-5b1e-7c7e-8d55-0c1f5a3e7a10']]);
      return;
    }
    const headers = { Authorization: `Bearer ${await service.adminToken()}` };
    const upload = await fetch(`${service.url}/ingestHistoricalLoadData/upload_historical?customer_id=acme-energy&filename=b&manufacturer=c`, { method: 'POST', headers });
    expect(upload.status).toBe(200);
    const answer = await fetch(`${service.url}/uploads?${String(new URLSearchParams(examples))}`, { method: operation.method.toUpperCase(), headers });
    expect([answer.status, await answer.json()]).toMatchObject([200, operation.method === 'get' ? { uploads: [{ customer_id: 'acme-energy' }] } : { deleted: 0 }]);
  });

  it.each(OPERATIONS.filter(isIdentity))('has no parameters: $path', (operation) => {
    expect(operationOf(document, operation).parameters ?? []).toEqual([]);
  });

  it.each(OPERATIONS.filter(isUpload))('offers a file as a form and as bytes, and JSON: $path', (operation) => {
    const { required = false, content = {} } = operationOf(document, operation).requestBody ?? {};
    expect(required).toBe(false);
    const schemaOf = (type: string): Schema | undefined => {
      const schema = content[type]?.schema;
      return document.components.schemas[schema?.$ref?.replace('#/components/schemas/', '') ?? ''] ?? schema;
    };
    expect(schemaOf('multipart/form-data')).toMatchObject({
      type: 'object',
      required: ['file'],
      properties: { file: { type: 'string', format: 'binary' }, additional_data: { type: 'string' } },
    });
    expect(schemaOf('application/octet-stream')).toMatchObject({ type: 'string', format: 'binary' });
    expect(schemaOf('application/json')).toMatchObject({ type: 'object', properties: { additional_data: { type: ['string', 'null'] } } });
    expect(Object.keys(content['application/json']?.examples ?? {})).not.toEqual([]);
  });

  it.each(OPERATIONS.filter(isUpload))('has examples of bodies that the service accepts: $path', async (operation) => {
    const { content = {} } = operationOf(document, operation).requestBody ?? {};
    const examples = Object.entries(content).flatMap(([type, { examples: of = {} }]) => Object.values(of).map(({ value }) => [type, value] as const));
    expect(examples).not.toEqual([]);
    for (const [type, value] of examples) {
      const headers = { 'Content-Type': type, Authorization: `Bearer ${await service.adminToken()}` };
      const body = typeof value === 'string' ? value : JSON.stringify(value);
      expect((await fetch(service.url + operation.path + operation.query, { method: 'POST', headers, body })).status).toBe(200);
    }
  });

  it.each(OPERATIONS.filter(({ path, good }) => path.startsWith(BASE) && good))('has a valid example of every member: $path', async (operation) => {
    const { required, content = {} } = operationOf(document, operation).requestBody ?? {};
    expect(required).toBe(true);
    expect(Object.keys(content)).toEqual(['application/json']);
    const { $ref = '' } = content['application/json']?.schema ?? {};
    const schema = document.components.schemas[$ref.replace('#/components/schemas/', '')] ?? {};
    expect(schema.required).toEqual(Object.keys(operation.good ?? {}));
    const example = Object.fromEntries(Object.entries(schema.properties ?? {}).map(([name, property]) => [name, property.example]));
    expect(mismatches(document, schema, example)).toEqual([]);

    const headers = { 'Content-Type': 'application/json', Authorization: `Bearer ${await service.adminToken()}` };
    const answer = await fetch(service.url + operation.path, { method: 'POST', headers, body: JSON.stringify(example) });
    // The user and role ids in the document's examples are well-formed but unknown, so operations with an id answer
    // 400.
    expect(answer.status).toBe(operation.path.includes('/create-') ? 201 : 400);
  });

  it.each([
    ['form', 'multipart/form-data'],
    ['bytes', 'application/octet-stream'],
    ['json', 'application/json'],
  ])('has only the upload body that the URL asks for: %s', async (choice, type) => {
    const chosen = (await (await fetch(`${service.url}/docs-json?uploads=${choice}`)).json()) as Document;
    for (const operation of OPERATIONS) {
      const [whole, one] = [operationOf(document, operation), operationOf(chosen, operation)];
      if (!isUpload(operation)) expect(one).toEqual(whole);
      else expect(one).toEqual({ ...whole, requestBody: { ...whole.requestBody, content: { [type]: whole.requestBody?.content[type] } } });
    }
  });

  it.each(['', 'xml', 'toString', 'form&uploads=json'])('is whole if the URL asks for "%s"', async (choice) => {
    expect(await (await fetch(`${service.url}/docs-json?uploads=${choice}`)).json()).toEqual(document);
  });

  it('has a token endpoint that gives the client admin a token', async () => {
    const { flows } = Object.values(document.components.securitySchemes).find(({ type }) => type === 'oauth2') ?? {};
    const secret = (await readFile(join(service.dataDirectory, 'identity', 'admin-secret'), 'utf8')).trim();
    const answer = await fetch(new URL(flows?.clientCredentials.tokenUrl ?? '', `${service.url}/docs`), {
      method: 'POST',
      headers: { Authorization: `Basic ${Buffer.from(`admin:${secret}`).toString('base64')}` },
      body: new URLSearchParams({ grant_type: 'client_credentials' }),
    });
    expect(answer.status).toBe(200);
    const { access_token } = (await answer.json()) as { access_token: string };
    const roles = await fetch(`${service.url}${BASE}/roles`, { headers: { Authorization: `Bearer ${access_token}` } });
    expect(roles.status).toBe(200);
  });

  it.each(['/docs', '/docs/'])('%s is a page that loads all its assets from the service', async (path) => {
    const page = await fetch(service.url + path);
    expect(page.status).toBe(200);
    expect(page.headers.get('content-type')).toMatch(/^text\/html/);
    const html = await page.text();
    const links = [...html.matchAll(/(?:src|href)="([^"#]+)"/g)].map(([, link = '']) => new URL(link, page.url));
    expect(links.length).toBeGreaterThanOrEqual(5);
    for (const link of links) {
      expect(link.href.startsWith(`${service.url}/docs/`)).toBe(true);
      const asset = await fetch(link);
      expect([link.pathname, asset.status]).toEqual([link.pathname, 200]);
      expect(asset.headers.get('content-type')).toMatch(/javascript|css|image/);
      expect((await asset.arrayBuffer()).byteLength).toBeGreaterThan(100);
    }
    const isNamespace = (url: string): boolean => url.startsWith('http://www.w3.org/') || url === 'http://naesb.org/espi';
    const script = await (await fetch(`${service.url}/docs/swagger-ui-init.js`)).text();
    const foreign = [...`${html}${script}`.matchAll(/(?:https?:)?\/\/[a-z0-9.-]+\.[a-z]+[^\s"'<>\\]*/g)].map(([url]) => url);
    expect(foreign.filter((url) => !isNamespace(url))).toEqual([]);
    expect(script).toContain(`"url": "${basePath || '/'}"`);
  });
});

describe('the document behind a proxy', () => {
  it('contains the URLs of the service and of the token endpoint as clients see them', async () => {
    const publicUrl = 'https://api.example/outer/v1';
    const service = await startService({ BASE_PATH: '/v1', PUBLIC_URL: publicUrl });
    const document = (await (await fetch(`http://127.0.0.1:${service.port}/v1/docs-json`)).json()) as Document;
    const seen = (url = ''): string => new URL(url, `${publicUrl}/docs`).href;
    expect(document.servers.map(({ url }) => seen(url))).toEqual([publicUrl]);
    expect(seen(document.components.securitySchemes.client?.flows?.clientCredentials.tokenUrl)).toBe(`${publicUrl}/idp/token`);
    await service.close();
  });
});

describe('every documented response is served by', () => {
  const provider = new InMemoryIdentityProvider();
  const storage = new InMemoryFileStorage();
  const EXHAUSTED = '192.0.2.1';
  let service: RunningService;
  /** Like `service`, for clients that fall silent. */
  let impatient: RunningService;
  let document: Document;
  const ids = { USER: '', ROLE: '' };
  /** The id of an upload that is stored before each test. It has a file of three bytes. */
  let stored: string;

  const start = (more: Readonly<Record<string, string>> = {}): Promise<RunningService> =>
    startService({ BASE_PATH: '/api', INGESTION_AUTH: 'required', MAX_JSON_BYTES: '1000', RATE_LIMIT_PER_MINUTE: '1', TRUST_PROXY: '1', ...more }, (builder) =>
      builder.overrideProvider(IdentityProvider).useValue(provider).overrideProvider(FileStorage).useValue(storage),
    );

  beforeAll(async () => {
    service = await start();
    impatient = await start({ REQUEST_IDLE_TIMEOUT_MS: '300' });
    const options = { signal: new AbortController().signal };
    ids.USER = await provider.createUser({ email: 'x@y.example', name: 'x', roleIds: [] }, options);
    ids.ROLE = await provider.createRole({ name: 'x', permissions: ['a:b'] }, options);
    await fetch(`${service.url}${BASE}/roles`, { headers: { 'X-Forwarded-For': EXHAUSTED } });
    document = await documentOf(service);
  });
  beforeEach(async () => {
    ({ uploadId: stored } = await storage.store(anUploadDraft().file('a,b').build()));
  });
  afterEach(() => {
    vi.restoreAllMocks();
    provider.recover();
    storage.recover();
  });
  afterAll(async () => {
    await impatient.close();
    await service.close();
  });

  let count = 0;
  const nextAddress = (): string => `10.0.0.${++count}`;

  interface Sent {
    readonly query?: string;
    /** The id of the upload in the path. Default: that of a stored upload. */
    readonly uploadId?: string;
    readonly headers?: Readonly<Record<string, string>>;
    readonly body?: string;
    /** Sends an invalid token. */
    readonly stranger?: boolean;
    /** The part of the request whose end isn't sent, so that the service waits for it. */
    readonly unended?: 'head' | 'body';
  }

  interface Answered {
    readonly status: number;
    readonly body: string;
    readonly header: (name: string) => string | undefined;
  }

  const goodBody = ({ good }: Served): string => (good ? JSON.stringify(good, (_name, value: unknown) => ids[value as 'USER' | 'ROLE'] || value) : '');

  async function send(operation: Served, { query = operation.query, uploadId = stored, body = goodBody(operation), stranger, unended, ...more }: Sent): Promise<Answered> {
    const at = unended ? impatient : service;
    const bearer = `Bearer ${stranger ? `x${count}` : await at.adminToken()}`;
    const given = { 'Content-Type': 'application/json', 'X-Forwarded-For': nextAddress(), Authorization: bearer, ...more.headers };
    const path = operation.path.replace('{upload_id}', uploadId) + query;
    if (operation.method === 'get' && Object.keys(more).length === 0 && !unended) {
      const answer = await fetch(at.url + path, { headers: given });
      return { status: answer.status, body: await answer.text(), header: (name) => answer.headers.get(name) ?? undefined };
    }
    const framed = more.headers?.['Transfer-Encoding'] ? given : { 'Content-Length': String(body.length), ...given };
    const head = [`${operation.method.toUpperCase()} /api${path} HTTP/1.1`, 'Host: x', ...Object.entries(framed).map(([name, value]) => `${name}: ${value}`)];
    const { status, body: text, headers } = await exchange(at.port, `${head.join('\r\n')}\r\n${unended === 'head' ? '' : `\r\n${body}`}`);
    return { status, body: text, header: (name) => headers[name] };
  }

  const failVerifier = (error: Error): void => {
    vi.spyOn(service.app.get(AccessTokenVerifier, { strict: false }), 'verify').mockRejectedValueOnce(error);
  };

  type Way = [status: number, error: string, sent: Sent, before?: () => void];
  const OF_ALL: Way[] = [
    [400, 'Bad request.', { headers: { 'X-A': '\u0001' } }],
    [403, 'Unauthorized.', { stranger: true }],
    [408, 'Request timeout.', { unended: 'head' }],
    [429, 'Too many requests.', { headers: { 'X-Forwarded-For': EXHAUSTED } }],
    [431, 'Request header fields too large.', { headers: { 'X-A': 'x'.repeat(20_000) } }],
    [500, 'Internal server error.', {}, () => { failVerifier(new Error('defect')); }],
  ];
  const OF_BODIES: Way[] = [
    [400, 'Bad request.', { headers: { 'Transfer-Encoding': 'chunked' }, body: 'zz\r\n' }],
    [408, 'Request timeout.', { headers: { 'Content-Length': '900' }, unended: 'body' }],
    [413, 'Payload too large.', { headers: { 'Content-Length': '1001' } }],
  ];
  const OF_UPLOADS: Way[] = [
    [400, 'Invalid or missing query parameter.', { query: '' }],
    [400, 'Invalid request body.', { body: '{' }],
    [400, 'Invalid digest.', { headers: { 'Content-Digest': 'sha-256' } }],
    [400, 'Digest mismatch.', { headers: { 'Content-Digest': `sha-256=:${Buffer.alloc(32).toString('base64')}:` } }],
    [400, 'Invalid idempotency key.', { headers: { 'Idempotency-Key': 'a b' } }],
    [409, 'Request in progress.', {}, () => { storage.failWith(new ServiceError('request-in-progress', 'x', { retryAfterSeconds: 1 })); }],
    [415, 'Unsupported media type.', { headers: { 'Content-Type': 'application/x-www-form-urlencoded' } }],
    [422, 'Idempotency key reused.', {}, () => { storage.failWith(new ServiceError('idempotency-key-reused')); }],
    [500, 'Internal server error.', {}, () => { storage.failWith(new ServiceError('storage-failure')); }],
    [503, 'Identity provider unavailable.', {}, () => { failVerifier(new ServiceError('provider-unavailable', 'x', { retryAfterSeconds: 1 })); }],
  ];
  const OF_STORED: Way[] = [
    [500, 'Internal server error.', {}, () => { storage.failWith(new ServiceError('storage-failure')); }],
    [503, 'Identity provider unavailable.', {}, () => { failVerifier(new ServiceError('provider-unavailable', 'x', { retryAfterSeconds: 1 })); }],
  ];
  const OF_LISTS: Way[] = [
    [400, 'Invalid or missing query parameter.', { query: '?customer_id=a&from=b' }],
    [404, 'Not found.', {}, () => { storage.failWith(new ServiceError('not-found', "The store doesn't offer its uploads.")); }],
  ];
  const OF_ONE: Way[] = [[404, 'Not found.', { uploadId: '0198c5a0-5b1e-7c7e-8d55-0c1f5a3e7a10' }]];
  const OF_CONTENT: Way[] = [[416, 'Range not satisfiable.', { headers: { Range: 'bytes=3-' } }]];
  const OF_IDENTITY: Way[] = [
    [502, 'Identity provider error.', {}, () => { provider.failWith(new ProviderError('x')); }],
    [503, 'Identity provider unavailable.', {}, () => { provider.failWith(new ProviderUnavailable('x')); }],
  ];
  const ofCommand = (refusal: string): Way[] => [
    [400, refusal, { body: '{' }],
    [415, 'Unsupported media type.', { headers: { 'Content-Type': 'text/plain' } }],
  ];

  /** The ways to an error that only some operations have. */
  const ownWaysOf = (operation: Served): Way[] => {
    if (isUpload(operation)) return OF_UPLOADS;
    if (isIdentity(operation)) return [...OF_IDENTITY, ...(operation.refusal === undefined ? [] : ofCommand(operation.refusal))];
    return [...OF_STORED, ...(operation.path === '/uploads' ? OF_LISTS : OF_ONE), ...(isContent(operation) ? OF_CONTENT : [])];
  };

  const waysOf = (operation: Served): Way[] => [...OF_ALL, ...(operation.method === 'post' ? OF_BODIES : []), ...ownWaysOf(operation)];

  /**
   * An upload, a command, a list of users, and a list and a removal of uploads. Each other operation shares the code
   * that answers with one of these, except that those on one stored upload have errors of their own.
   */
  const ONE_OF_EACH_KIND = ['upload_historical', 'create-role', 'users', 'uploads'];
  const shownBy = (operation: Served): Way[] => {
    const isFirst = ONE_OF_EACH_KIND.some((name) => operation.path.endsWith(`/${name}`));
    const own = isOfStored(operation) ? ownWaysOf(operation) : [];
    return waysOf(operation).filter((way) => isFirst || own.includes(way) || way[0] === 403 || way[1] === operation.refusal);
  };

  /** Headers that an answer has if and only if they are documented for its status. */
  const EXACT_HEADERS = ['Retry-After', 'ETag', 'Repr-Digest', 'Content-Disposition', 'Accept-Ranges', 'Content-Range'];

  /** Expects an answer of the service to match what the OpenAPI document says about it. */
  function expectDocumented(operation: Served, { status, body, header }: Answered): void {
    const documented = operationOf(document, operation).responses[status];
    const json = documented?.content?.['application/json'];
    if (json) expectDocumentedJson(json, body, header('content-type'));
    else expect([documented?.content !== undefined, header('content-type')]).toEqual(body === '' ? [false, undefined] : [true, 'application/octet-stream']);
    for (const [name, { schema: of }] of Object.entries(documented?.headers ?? {})) {
      if (!['X-Upload-Digest', 'Idempotent-Replayed'].includes(name)) expect(mismatches(document, of, header(name.toLowerCase()))).toEqual([]);
    }
    expect(documented?.headers).toHaveProperty('X-Request-Id');
    const served = EXACT_HEADERS.filter((name) => header(name.toLowerCase()) !== undefined);
    expect(served).toEqual(EXACT_HEADERS.filter((name) => Object.hasOwn(documented?.headers ?? {}, name)));
  }

  function expectDocumentedJson({ schema = {}, example, examples }: MediaType, body: string, type: string | undefined): void {
    const described = [example, ...Object.values(examples ?? {}).map(({ value }) => value)].filter((value) => value !== undefined);
    for (const value of described) expect(mismatches(document, schema, value)).toEqual([]);
    const { message, error } = JSON.parse(body) as { message?: string; error?: string };
    if (message ?? error) expect(described).toContainEqual(expect.objectContaining(error === undefined ? { message } : { error }));
    expect(type).toBe('application/json; charset=utf-8');
    expect(mismatches(document, schema, JSON.parse(body))).toEqual([]);
  }

  describe.each(OPERATIONS)('$method $path', (operation) => {
    it('with its status of success', async () => {
      const answer = await send(operation, {});
      expect(answer.status).toBe(operation.status);
      expectDocumented(operation, answer);
    });

    it.each<Way>(shownBy(operation))('with %i %s for %j', async (status, error, sent, before) => {
      before?.();
      const answer = await send(operation, sent);
      expect({ status: answer.status, body: answer.body }).toEqual({ status, body: JSON.stringify({ error }) });
      expectDocumented(operation, answer);
    });

    it('which documents no others, and the exact texts', () => {
      const served = new Map<string, Set<string>>();
      for (const [status, error] of waysOf(operation)) served.set(String(status), (served.get(String(status)) ?? new Set()).add(error));
      const responses = Object.entries(operationOf(document, operation).responses);
      const errors = responses.filter(([status]) => Number(status) >= 400);
      expect(responses.filter((response) => !errors.includes(response)).map(([status]) => Number(status))).toEqual(successesOf(operation));
      const documented = errors.map(([status, { content, description }]) => {
        const { schema, examples } = content?.['application/json'] ?? {};
        const texts = description.split(' / ');
        expect(schema).toEqual({ $ref: '#/components/schemas/Error' });
        expect(Object.values(examples ?? {}).map(({ value }) => value)).toEqual(texts.map((error) => ({ error })));
        return [status, [...texts].sort()];
      });
      expect(Object.fromEntries(documented)).toEqual(Object.fromEntries([...served].map(([status, texts]) => [status, [...texts].sort()])));
    });
  });

  it.each<[number, Sent, string]>([
    [206, { headers: { Range: 'bytes=1-' } }, ',b'],
    [304, { headers: { 'If-None-Match': '*' } }, ''],
  ])('a download with %i for %j', async (status, sent, body) => {
    const [download] = OPERATIONS.filter(isContent) as [Served];
    const answer = await send(download, sent);
    expect([answer.status, answer.body]).toEqual([status, body]);
    expectDocumented(download, answer);
  });

  it('an upload of a file, with the documented digest', async () => {
    const [operation] = OPERATIONS;
    const answer = await send(operation, { headers: { 'Content-Type': 'text/csv' }, body: 'a,b' });
    expectDocumented(operation, answer);
    expect(answer.header('x-upload-digest')).toMatch(/^sha-256=:[A-Za-z0-9+/]{43}=:$/);
    expect(operationOf(document, operation).responses['200']?.headers).toHaveProperty('X-Upload-Digest');
  });
});

import { existsSync, readFileSync } from 'node:fs';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import type { Auth0Exchange } from '../../src/testing/index.js';

/** Auth0's API description. The file is absent unless it was placed beside the project. */
const FILE = new URL('../../../shared/auth0/management-api.openapi.json', import.meta.url);

interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly required?: boolean;
  readonly schema: { readonly type?: string; readonly pattern?: string };
}

interface Operation {
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: unknown;
  readonly responses: Readonly<Record<string, { readonly content?: unknown }>>;
}

export interface Description {
  readonly components?: unknown;
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
}

export interface Violation {
  readonly side: 'request' | 'answer';
  readonly operation: string;
  /** The status of the answer. Undefined if a fault replaced the answer. */
  readonly status: number | undefined;
  readonly text: string;
}

/**
 * Known deviations of Auth0's answers from the description, by operation and status. The body of such an answer is
 * checked against the description of the given other status.
 */
const DEVIATIONS: Readonly<Record<string, number>> = {
  // The answer has status 200 in recorded traffic with a tenant, and 201 in the description.
  'patch /resource-servers/{id} 200': 201,
};
/** Members of a role that aren't in the description, seen in recorded traffic of tenants with organization roles. */
const UNDESCRIBED_MEMBERS = new Set(['type', 'owner_id']);
/** Refusals that need no description: it lists 404 only for some operations, and 5xx for almost none. */
const UNLISTED_REFUSALS = new Set([404, 413, 414, 500, 502, 503, 504]);

/** Checks requests to Auth0's Management API, and the answers, against Auth0's description of this API. */
export class Auth0Description {
  private readonly ajv = new Ajv2020({ strict: false, allErrors: true, unicodeRegExp: false });
  private readonly paths: readonly { readonly template: string; readonly pattern: RegExp }[];

  constructor(private readonly description: Description) {
    addFormats.default(this.ajv);
    // E-mails may have letters beyond ASCII, because it isn't documented whether Auth0 accepts them.
    this.ajv.addFormat('email', /^[^\s@]+@[^\s@]+$/u);
    this.ajv.addFormat('strict-uri', { type: 'string', validate: (value: string) => URL.canParse(value) });
    this.ajv.addFormat('client-id', true);
    this.ajv.addSchema({ $id: 'auth0', ...description });
    this.paths = Object.keys(description.paths).map((template) => ({
      template,
      pattern: new RegExp(`^/api/v2${template.replace('{id}', '(?<id>[^/]+)')}$`),
    }));
  }

  /** Lists the violations in a request and its answer. An operation without a description has none. */
  violationsOf({ method, path, query, requestBody, answer }: Auth0Exchange): Violation[] {
    const found = this.paths.find(({ template, pattern }) => pattern.test(path) && method.toLowerCase() in (this.description.paths[template] ?? {}));
    if (!found) return [];
    const { template, pattern } = found;
    const id = pattern.exec(path)?.groups?.id ?? '';
    const verb = method.toLowerCase();
    const operation = this.description.paths[template]?.[verb];
    if (!operation) return [];
    const violations: Violation[] = [];
    const at = `auth0#/paths/${pointer(template)}/${verb}`;
    const note = (side: Violation['side'], texts: readonly string[]) => {
      for (const text of texts) violations.push({ side, operation: `${method} ${template}`, status: answer?.status, text });
    };
    note('request', this.parameterErrors(at, operation.parameters ?? [], query, id));
    note('request', this.bodyErrors(at, operation, requestBody));
    if (answer) note('answer', this.answerErrors(at, `${verb} ${template}`, operation, answer.status, answer.body));
    return violations;
  }

  private parameterErrors(at: string, parameters: readonly Parameter[], query: URLSearchParams, id: string): string[] {
    const names = new Set(parameters.filter((each) => each.in === 'query').map(({ name }) => name));
    const unknown = [...new Set(query.keys())].filter((name) => !names.has(name)).map((name) => `unknown parameter ${name}`);
    const errors = parameters.flatMap(({ name, in: place, required, schema }, index) => {
      if (place === 'path' && !isEncoding(id)) return ['a path that is not encoded'];
      const values = place === 'path' ? [decodeURIComponent(id)] : query.getAll(name);
      if (values.length === 0) return required ? [`missing parameter ${name}`] : [];
      const value = schema.type === 'array' ? values : toTyped(values[0] ?? '', schema.type);
      return this.errors(`${at}/parameters/${index}/schema`, value).map((error) => `parameter ${name}: ${error}`);
    });
    return [...unknown, ...errors];
  }

  private bodyErrors(at: string, { requestBody }: Operation, body: unknown): string[] {
    if (!requestBody) return body === undefined ? [] : ['a body that is not described'];
    return this.errors(`${at}/requestBody/content/application~1json/schema`, body);
  }

  private answerErrors(at: string, name: string, { responses }: Operation, status: number, body: unknown): string[] {
    const described = DEVIATIONS[`${name} ${status}`] ?? status;
    const response = responses[described];
    if (!response) return UNLISTED_REFUSALS.has(status) ? [] : ['a status that is not described'];
    if (!response.content) return [];
    return this.errors(`${at}/responses/${described}/content/application~1json/schema`, name.includes('/roles') ? withoutUndescribed(body) : body);
  }

  private errors(reference: string, value: unknown): string[] {
    const validate = this.ajv.getSchema(reference) ?? this.ajv.compile({ $ref: reference });
    if (validate(value)) return [];
    return (validate.errors ?? []).map(({ instancePath, message = '' }) => `${instancePath} ${message}`.trim());
  }
}

let description: Auth0Description | undefined;

/** Reads Auth0's API description. Undefined if the file is absent. */
export function readAuth0Description(): Auth0Description | undefined {
  if (!description && existsSync(FILE)) description = new Auth0Description(JSON.parse(readFileSync(FILE, 'utf8')) as Description);
  return description;
}

export default function prepare(): void {
  reportIfLeftOut(FILE);
}

export function reportIfLeftOut(file: URL): void {
  if (!existsSync(file)) console.log("Left out: the check of requests and answers against Auth0's description, which isn't here.");
}

/** Whether each `%` begins an escape. It may escape invalid UTF-8, which no test sends. */
const isEncoding = (segment: string): boolean => !/%(?![0-9A-Fa-f]{2})/.test(segment);

const withoutUndescribed = (body: unknown): unknown =>
  JSON.parse(JSON.stringify(body ?? null), (_, value: unknown) =>
    typeof value === 'object' && value !== null && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).filter(([name]) => !UNDESCRIBED_MEMBERS.has(name)))
      : value,
  );

const pointer = (key: string): string => encodeURIComponent(key.replaceAll('~', '~0').replaceAll('/', '~1'));

function toTyped(text: string, type: string | undefined): unknown {
  if (type === 'integer' && /^-?\d+$/.test(text)) return Number(text);
  if (type === 'boolean' && /^(true|false)$/.test(text)) return text === 'true';
  return text;
}

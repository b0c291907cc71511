import { expect } from 'vitest';

export const BASE = '/idpManagementBackend';
export const JSON_TYPE = { 'Content-Type': 'application/json' };

export const OPERATIONS = ['assign-role', 'create-role', 'create-user', 'update-user'] as const;
export type Operation = (typeof OPERATIONS)[number];
export const ALL_OPERATIONS = [...OPERATIONS, 'roles', 'users'] as const;

export const REFUSAL: Record<Operation, string> = {
  'assign-role': 'Invalid user_id or role_id.',
  'create-role': 'Invalid role_name or permissions.',
  'create-user': 'Invalid email or roles.',
  'update-user': 'Invalid user_id or new_name.',
};

export type Fields = Record<string, unknown>;

export interface Answer {
  readonly status: number;
  readonly body: string;
  readonly headers: Headers;
}

function expectForm({ headers }: Answer): void {
  expect(headers.get('content-type')).toBe('application/json; charset=utf-8');
  expect(headers.get('x-request-id')).toMatch(/^[A-Za-z0-9._-]{1,128}$/);
}

export function expectAnswer(answer: Answer, status: number, body: string | RegExp): void {
  expect({ status: answer.status, body: answer.body }).toEqual({
    status,
    body: typeof body === 'string' ? body : (expect.stringMatching(body) as string),
  });
  expectForm(answer);
}

export const expectError = (answer: Answer, status: number, error: string): void => {
  expectAnswer(answer, status, JSON.stringify({ error }));
};

let count = 0;
export const fresh = (): string => `n${++count}`;
export const freshEmail = (): string => `${fresh()}@grid.example`;

export interface Target {
  url: string;
  token: string;
}

/** The time limit of a request: the service promises an answer within ten seconds, and its transfer takes time. */
const CALLER_WAITS_MS = 11_000;

export const bytes = (body: string | Buffer): Uint8Array<ArrayBuffer> => new Uint8Array(Buffer.from(body));

/**
 * Returns functions that send requests for the six identity operations. Each request goes to the service that `target`
 * names at that moment.
 */
export function identityRequests(target: Target) {
  /** A role and a user that exist once `makeKnown` was called. Their name and e-mail are then in use. */
  const known = { roleId: '', userId: '', roleName: 'taken', email: 'taken@grid.example' };
  async function makeKnown(): Promise<void> {
    known.roleId = await created('create-role', { role_name: known.roleName, permissions: ['read:roles'] });
    known.userId = await created('create-user', { email: known.email, roles: [] });
  }

  async function send(method: string, path: string, init: RequestInit = {}): Promise<Answer> {
    const headers = { Authorization: `Bearer ${target.token}`, ...(init.headers as Record<string, string> | undefined) };
    const answer = await fetch(target.url + path, { signal: AbortSignal.timeout(CALLER_WAITS_MS), ...init, method, headers });
    return { status: answer.status, body: await answer.text(), headers: answer.headers };
  }

  const postRaw = (operation: string, body: string | Buffer, headers: Record<string, string> = {}): Promise<Answer> =>
    send('POST', `${BASE}/${operation}`, { body: bytes(body), headers: { ...JSON_TYPE, ...headers } });
  const post = (operation: string, fields: unknown): Promise<Answer> => postRaw(operation, JSON.stringify(fields));

  async function created(operation: 'create-role' | 'create-user', fields: Fields): Promise<string> {
    const answer = await post(operation, fields);
    expect({ status: answer.status, body: answer.body }).toMatchObject({ status: 201 });
    return String(Object.values(JSON.parse(answer.body) as Fields)[1]);
  }

  const list = async (member: 'roles' | 'users'): Promise<Fields[]> =>
    (JSON.parse((await send('GET', `${BASE}/${member}`)).body) as Record<string, Fields[]>)[member] ?? [];
  const userOf = async (id: string): Promise<Fields | undefined> => (await list('users')).find(({ user_id }) => user_id === id);

  const GOOD = {
    'assign-role': () => ({ user_id: known.userId, role_id: known.roleId }),
    'create-role': () => ({ role_name: fresh(), permissions: ['upload:historical'] }),
    'create-user': () => ({ email: freshEmail(), name: 'Operator', roles: [known.roleId] }),
    'update-user': () => ({ user_id: known.userId, new_name: 'Operator' }),
  } as const satisfies Record<Operation, () => Fields>;
  const ask = (operation: (typeof ALL_OPERATIONS)[number], fields?: Fields): Promise<Answer> =>
    operation in GOOD ? post(operation, fields ?? GOOD[operation as Operation]()) : send('GET', `${BASE}/${operation}`);

  return { target, known, makeKnown, send, postRaw, post, created, list, userOf, GOOD, ask };
}

export type IdentityRequests = ReturnType<typeof identityRequests>;

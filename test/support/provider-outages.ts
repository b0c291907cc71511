import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { ALL_OPERATIONS, type Answer, BASE, type Fields, identityRequests, type IdentityRequests } from './identity-requests.js';
import type { RunningService } from './service.js';

/** Something that goes wrong with a provider, and ends. */
export interface Fault {
  begin(): unknown;
  end(): unknown;
}

/** What a provider does, and what the service answers then. */
export type Outage = readonly [what: string, status: 502 | 503, fault: Fault];

/** What is left of creations that failed would have one of these. */
export interface Names {
  readonly emails: readonly string[];
  readonly roleNames: readonly string[];
}

export interface ProviderWithOutages {
  /** To a service whose uploads want a token. */
  readonly requests: IdentityRequests;
  readonly outages: readonly Outage[];
  /** Whom and what the provider has of these, by its own account. */
  readonly find: (names: Names) => Promise<readonly unknown[]>;
}

const ERRORS = { 502: 'Identity provider error.', 503: 'Identity provider unavailable.' } as const;
const WELL = { 'assign-role': 200, 'create-role': 201, 'create-user': 201, 'update-user': 200, roles: 200, users: 200 };
const UPLOAD = '/ingestHistoricalLoadData/upload_historical?customer_id=acme&filename=load.csv&manufacturer=Acme';
/** What gateways answer. */
export const PAGE = '<!DOCTYPE html><title>Down for maintenance</title>';
/** So long that it comes in many pieces. */
export const LONG_PAGE = PAGE.padEnd(256 * 1024);
/** How long an event may be waited for. */
export const PATIENCE = { timeout: 20_000, interval: 50 };
/** Of what stands before a provider's API and answers in its place. */
export const gatewayOutages = (respond: (status: number, body: string) => Fault): readonly Outage[] => [
  ...[502, 503, 504].map((status): Outage => [`is behind a gateway that answers ${status}`, 503, respond(status, PAGE)]),
  ['answers HTML with 404', 502, respond(404, PAGE)],
];
const ROW_TIMEOUT_MS = 90_000;
/** More than the service has connections to a provider at most. */
const MANY = 200;

/** What a caller sees while the provider is unwell; for `expect.toEqual`. */
export const outageAnswer = (status: 502 | 503) => ({
  status,
  body: JSON.stringify({ error: ERRORS[status] }),
  retryAfter: status === 503 ? '10' : null,
});

/** Of an answer, what `outageAnswer` says. */
export async function outcome(answer: Promise<Answer>) {
  const { status, body, headers } = await answer;
  return { status, body, retryAfter: headers.get('retry-after') };
}

/** Resolves when all six operations succeed, and the service says that it is ready. */
export async function untilWell({ ask, send }: IdentityRequests): Promise<void> {
  await vi.waitFor(async () => {
    expect((await send('GET', '/health/ready')).status).toBe(200);
    const statuses = await Promise.all(ALL_OPERATIONS.map(async (operation) => [operation, (await ask(operation)).status] as const));
    expect(Object.fromEntries(statuses)).toEqual(WELL);
  }, PATIENCE);
}

/** The matrix of what the six operations and all else answer in each outage, and that all is well again after it. */
export function outageMatrix({ requests, outages, find }: ProviderWithOutages): void {
  const { send, ask, GOOD } = requests;

  describe.each(outages)('%s', { timeout: ROW_TIMEOUT_MS }, (_, status, fault) => {
    const answers = new Map<string, unknown>();
    const failed: Fields[] = [];
    let isOver = false;
    const end = async () => {
      if (!isOver) await fault.end();
      isOver = true;
    };

    beforeAll(async () => {
      await untilWell(requests);
      await fault.begin();
      // The service's token for the provider may hold for some seconds.
      await vi.waitFor(async () => { expect((await ask('roles')).status).toBe(status); }, PATIENCE);
      await Promise.all(ALL_OPERATIONS.map(async (operation) => {
        const fields = operation in GOOD ? GOOD[operation as keyof typeof GOOD]() : {};
        failed.push(fields);
        answers.set(operation, await outcome(ask(operation, fields)).catch((error: unknown) => error));
      }));
    }, ROW_TIMEOUT_MS);
    afterAll(end);

    it.each(ALL_OPERATIONS)(`%s: ${status} ${ERRORS[status]}`, (operation) => {
      expect(answers.get(operation)).toEqual(outageAnswer(status));
    });

    it('readiness: 503; liveness: 200', async () => {
      await vi.waitFor(async () => { expect((await send('GET', '/health/ready')).status).toBe(503); }, PATIENCE);
      expect((await send('GET', '/health/live')).status).toBe(200);
    });

    it('an upload: 200, with a token that is verified as before; 403, with one that is changed', async () => {
      const upload = async (headers = {}) => (await send('POST', UPLOAD, { body: 'a file', headers })).status;
      expect(await upload()).toBe(200);
      expect(await upload({ Authorization: `Bearer ${requests.target.token.slice(0, -8)}AAAAAAAA` })).toBe(403);
    });

    it('and after it all is well, without a restart, and nothing is left of what failed', async () => {
      await end();
      await untilWell(requests);
      const made = (member: string) => failed.flatMap(({ [member]: name }) => (typeof name === 'string' ? [name] : []));
      await vi.waitFor(async () => { expect(await find({ emails: made('email'), roleNames: made('role_name') })).toEqual([]); }, PATIENCE);
    });
  });
}

/** That in outages callers who take up all connections to the provider get their answers, and keep none of these from being used again. */
export function outagesWithManyCallers({ requests, outages }: Omit<ProviderWithOutages, 'find'>): void {
  // So many wait for each other, too.
  const one = () => requests.send('GET', `${BASE}/roles`, { signal: AbortSignal.timeout(PATIENCE.timeout) });
  const many = async () => new Set((await Promise.all(Array.from({ length: MANY }, one))).map(({ status }) => status));

  it.each(outages)(`%s to ${MANY} callers, twice: all is well after it`, { timeout: ROW_TIMEOUT_MS }, async (_, status, fault) => {
    await untilWell(requests);
    await fault.begin();
    try {
      expect(await many()).toEqual(new Set([status]));
      expect(await many()).toEqual(new Set([status]));
    } finally {
      await fault.end();
    }
    await untilWell(requests);
  });
}

/** That a service starts without its provider, and needs no restart when that is there. */
export function startWithout(absence: Fault, { target, known }: IdentityRequests, start: () => Promise<RunningService>): void {
  it('is not there at boot: the service is live, and well once it is there', async () => {
    await absence.begin();
    const late = await start();
    const requests = identityRequests({ url: late.url, token: target.token });
    try {
      expect((await requests.send('GET', '/health/live')).status).toBe(200);
      expect((await requests.send('GET', '/health/ready')).status).toBe(503);
      expect((await requests.ask('roles')).status).toBe(503);
      await absence.end();
      Object.assign(requests.known, known);
      await untilWell(requests);
    } finally {
      await late.close();
    }
  });
}

export interface RotatingProvider {
  /** What `GET /roles` answers to a token, by a service that has just been started. */
  status(token: string): Promise<number>;
  /** Whether a new key stands in the key set before anything is signed with it. */
  readonly isPublishedEarly: boolean;
  /** Signs with a new key from now on; returns a token. */
  rotate(): Promise<string>;
  /** Takes the old key out of the key set. */
  revoke(): Promise<void>;
  /** How often the key set was asked for, by this service. */
  fetches(): number;
}

/** What becomes of tokens of the old and the new key. The clock of the tests goes on by ten minutes meanwhile. */
export async function expectKeysToRotate(provider: RotatingProvider, old: string): Promise<void> {
  const statuses = (...tokens: string[]) => Promise.all(tokens.map((token) => provider.status(token)));
  const later = (seconds: number) => vi.setSystemTime(Date.now() + seconds * 1000);
  vi.useFakeTimers({ toFake: ['Date'] });
  try {
    expect(await statuses(old)).toEqual([200]);
    const before = provider.fetches();
    const next = await provider.rotate();
    // An unknown key leads to a fetch of all keys, once in a cool-down.
    later(5);
    const many = Array.from({ length: 20 }, (_, index) => (index % 2 === 0 ? old : next));
    expect(await statuses(...many)).toEqual(many.map(() => 200));
    const refetches = provider.isPublishedEarly ? 0 : 1;
    expect(provider.fetches() - before).toBe(refetches);

    await provider.revoke();
    later(provider.isPublishedEarly ? 594 : 599);
    expect(await statuses(old, next)).toEqual([200, 200]);
    later(1);
    await statuses(next);
    await expect.poll(() => provider.fetches() - before, PATIENCE).toBe(refetches + 1);
    // A known key's token waits only a moment for the fetch; after that the old key is unknown, and looked for once more.
    await expect.poll(() => statuses(old, next), PATIENCE).toEqual([403, 200]);
    expect(provider.fetches() - before).toBeLessThanOrEqual(refetches + 2);
  } finally {
    vi.useRealTimers();
  }
}

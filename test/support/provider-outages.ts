import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { ALL_OPERATIONS, type Answer, BASE, type Fields, identityRequests, type IdentityRequests } from './identity-requests.js';
import { skipTime } from './skipped-time.js';
import type { RunningService } from './service.js';

export interface Fault {
  begin(): unknown;
  end(): unknown;
}

/** An outage of the identity provider. The status is that of the service's answers during the outage. */
export type Outage = readonly [what: string, status: 502 | 503, fault: Fault];

/** The e-mails of users and names of roles whose creation failed, so that the provider must not keep them. */
export interface Names {
  readonly emails: readonly string[];
  readonly roleNames: readonly string[];
}

export interface ProviderWithOutages {
  readonly requests: IdentityRequests;
  readonly outages: readonly Outage[];
  /**
   * Whether the outages begin to matter only after some seconds, when the service's token for the provider has expired.
   */
  readonly areDelayed?: boolean;
  readonly find: (names: Names) => Promise<readonly unknown[]>;
}

const ERRORS = { 502: 'Identity provider error.', 503: 'Identity provider unavailable.' } as const;
const WELL = { 'assign-role': 200, 'create-role': 201, 'create-user': 201, 'update-user': 200, roles: 200, users: 200 };
const UPLOAD = '/ingestHistoricalLoadData/upload_historical?customer_id=acme&filename=load.csv&manufacturer=Acme';
export const PAGE = '<!DOCTYPE html><title>Down for maintenance</title>';
export const LONG_PAGE = PAGE.padEnd(256 * 1024);
export const PATIENCE = { timeout: 20_000, interval: 50 };
const RECOVERY = { timeout: 10_000, interval: 50 };
const HEALTH_REUSED_MS = 1_000;
/**
 * Outages in which a gateway in front of the provider's API answers in the API's place. One status above 499 is enough,
 * because the code treats all of them alike.
 */
export const gatewayOutages = (respond: (status: number, body: string) => Fault): readonly Outage[] => [
  ['is behind a gateway that answers 503', 503, respond(503, PAGE)],
  ['answers HTML with 404', 502, respond(404, PAGE)],
];
const ROW_TIMEOUT_MS = 90_000;
/** A number of callers beyond the service's maximum number of connections to a provider. */
const MANY = 200;

/** The service's answer to an identity operation during an outage, in the form that `outcome` returns. */
export const outageAnswer = (status: 502 | 503) => ({
  status,
  body: JSON.stringify({ error: ERRORS[status] }),
  retryAfter: status === 503 ? '10' : null,
});

export async function outcome(answer: Promise<Answer>) {
  const { status, body, headers } = await answer;
  return { status, body, retryAfter: headers.get('retry-after') };
}

/**
 * Resolves when all six identity operations succeed and the service reports that it is ready. Rejects after the time
 * that a recovery may take.
 */
export async function untilWell({ ask, send }: IdentityRequests): Promise<void> {
  skipTime(HEALTH_REUSED_MS);
  await vi.waitFor(async () => {
    expect((await send('GET', '/health/ready')).status).toBe(200);
    const statuses = await Promise.all(ALL_OPERATIONS.map(async (operation) => [operation, (await ask(operation)).status] as const));
    expect(Object.fromEntries(statuses)).toEqual(WELL);
  }, RECOVERY);
}

/**
 * Defines tests of the service during each outage of its provider: the answers of the six identity operations, of
 * readiness, liveness and uploads. Everything must work before the first outage, and again after each. Moves the
 * monotonic clock of the test process ahead.
 */
export function outageMatrix({ requests, outages, areDelayed = false, find }: ProviderWithOutages): void {
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
      await fault.begin();
      if (areDelayed) await vi.waitFor(async () => { expect((await ask('roles')).status).toBe(status); }, PATIENCE);
      await Promise.all(ALL_OPERATIONS.map(async (operation) => {
        const fields = operation in GOOD ? GOOD[operation as keyof typeof GOOD]() : {};
        failed.push(fields);
        answers.set(operation, await outcome(ask(operation, fields)).catch((error: unknown) => error));
      }));
    }, ROW_TIMEOUT_MS);
    afterAll(end);

    it.each(ALL_OPERATIONS)(`%s answers ${status} ${ERRORS[status]}`, (operation) => {
      expect(answers.get(operation)).toEqual(outageAnswer(status));
    });

    it('readiness answers 503, and liveness 200', async () => {
      skipTime(HEALTH_REUSED_MS);
      await vi.waitFor(async () => { expect((await send('GET', '/health/ready')).status).toBe(503); }, PATIENCE);
      expect((await send('GET', '/health/live')).status).toBe(200);
    });

    it('an upload answers 200 to a valid token, and 403 to a changed one', async () => {
      const upload = async (headers = {}) => (await send('POST', UPLOAD, { body: 'a file', headers })).status;
      expect(await upload()).toBe(200);
      expect(await upload({ Authorization: `Bearer ${requests.target.token.slice(0, -8)}AAAAAAAA` })).toBe(403);
    });

    // The test isn't repeated if it fails: the outage has ended then, so the service would have more time.
    it('afterwards everything works within ten seconds without a restart, and nothing remains of failed creations', { retry: 0 }, async () => {
      await end();
      await untilWell(requests);
      const made = (member: string) => failed.flatMap(({ [member]: name }) => (typeof name === 'string' ? [name] : []));
      await vi.waitFor(async () => { expect(await find({ emails: made('email'), roleNames: made('role_name') })).toEqual([]); }, PATIENCE);
    });
  });
}

/**
 * Defines tests in which many callers occupy all connections to the provider during outages: each caller must get its
 * answer, and all connections must work afterwards.
 */
export function outagesWithManyCallers({ requests, outages }: Pick<ProviderWithOutages, 'requests' | 'outages'>): void {
  // These requests have a longer time limit than others, because so many callers also wait for each other.
  const one = () => requests.send('GET', `${BASE}/roles`, { signal: AbortSignal.timeout(PATIENCE.timeout) });
  const many = async () => new Set((await Promise.all(Array.from({ length: MANY }, one))).map(({ status }) => status));

  it.each(outages)(`%s during ${MANY} simultaneous calls, twice: everything works afterwards`, { timeout: ROW_TIMEOUT_MS }, async (_, status, fault) => {
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

/**
 * Defines a test that a service starts while its provider is unavailable, and needs no restart once the provider is
 * available.
 */
export function startWithout(absence: Fault, { target, known }: IdentityRequests, start: () => Promise<RunningService>): void {
  it('is unavailable at boot: the service is live, and works once the tenant or realm is available', async () => {
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
  status(token: string): Promise<number>;
  /** Whether the provider adds a new key to its key set before it signs with this key. */
  readonly isPublishedEarly: boolean;
  rotate(): Promise<string>;
  revoke(): Promise<void>;
  fetches(): number;
}

/**
 * Checks until when a service accepts tokens that are signed with the provider's old key, and that it accepts those of
 * the new key. Moves the monotonic clock of the test process ten minutes ahead.
 */
export async function expectKeysToRotate(provider: RotatingProvider, old: string): Promise<void> {
  const statuses = (...tokens: string[]) => Promise.all(tokens.map((token) => provider.status(token)));
  const later = (seconds: number) => { skipTime(seconds * 1000); };
  expect(await statuses(old)).toEqual([200]);
  const before = provider.fetches();
  const next = await provider.rotate();
  // A token with an unknown key makes the service fetch all keys, at most once in each cool-down of five seconds.
  later(5);
  const many = Array.from({ length: 20 }, (_, index) => (index % 2 === 0 ? old : next));
  expect(await statuses(...many)).toEqual(many.map(() => 200));
  const refetches = provider.isPublishedEarly ? 0 : 1;
  expect(provider.fetches() - before).toBe(refetches);

  await provider.revoke();
  later(540);
  expect(await statuses(old, next)).toEqual([200, 200]);
  later(60);
  await statuses(next);
  await expect.poll(() => provider.fetches() - before, PATIENCE).toBe(refetches + 1);
  // A request whose token has a known key waits only briefly for this fetch. After the fetch the old key is unknown,
  // and the service looks for it once more.
  await expect.poll(() => statuses(old, next), PATIENCE).toEqual([403, 200]);
  expect(provider.fetches() - before).toBeLessThanOrEqual(refetches + 2);
}

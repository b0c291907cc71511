import { z } from 'zod';
import { InvalidIdentityValue, ProviderUnavailable } from '../../../domain/errors.js';
import { type ApiClient, unexpected } from '../provider-api/api-client.js';
import { mayBeDone } from '../provider-api/api-failure.js';
import type { Operation } from '../provider-api/operation.js';

const SCOPE = z.object({ value: z.string(), description: z.string().nullish() });
/** An API in Auth0's answer. The member `scopes` is missing if the API has no scopes. */
const RESOURCE_SERVER = z.object({ identifier: z.string(), scopes: z.array(SCOPE).nullish() });

type Scope = z.infer<typeof SCOPE>;

const ATTEMPTS = 5;
/**
 * How long after it was read an API's list of scopes may be written back with additions, in milliseconds. After that,
 * the list is read again first, because others may have changed it.
 */
const FRESH_MS = 200;

/**
 * The scopes of an API of the tenant, which are the permissions that the tenant's roles may have. Auth0 replaces the
 * whole list of scopes at once and has no conditional update. A change that others make between our read and our write
 * of the list is lost. Within this process, writes run one at a time. After each write, the list is read back, and
 * written again if others have overwritten it.
 */
export class ApiScopes {
  private readonly path: string;
  private turn: Promise<unknown> = Promise.resolve();
  /**
   * The number of writes of the scopes that this process has ended. A list of scopes read before the latest write may
   * be outdated.
   */
  private writes = 0;

  /** @param audience the API's identifier at Auth0. */
  constructor(
    private readonly api: ApiClient,
    audience: string,
  ) {
    this.path = `/resource-servers/${encodeURIComponent(audience)}`;
  }

  /**
   * Resolves when the API has all of these permissions as scopes. Takes one call to Auth0 if the API has them already;
   * otherwise at least three.
   *
   * @throws InvalidIdentityValue when Auth0 refuses the scopes, for example because the API has no room for more.
   * ProviderUnavailable when others overwrite the scopes five times.
   */
  async ensure(permissions: readonly string[], operation: Operation): Promise<void> {
    const { writes } = this;
    const scopes = await this.read(operation);
    const freshUntil = performance.now() + FRESH_MS;
    if (lacking(scopes, permissions).length === 0) return;
    await this.inTurn(async () => {
      // The list of scopes read before this turn is written back only if it is recent, and no other write of this
      // process has ended since. Otherwise the list is read again.
      const isFresh = writes === this.writes && performance.now() < freshUntil;
      await this.add(permissions, isFresh ? scopes : await this.read(operation), operation);
    });
  }

  /**
   * Reads the API's scopes.
   *
   * @throws ProviderError when the API doesn't exist.
   */
  async read(operation: Operation): Promise<readonly Scope[]> {
    const { scopes } = await this.api.get(this.path, RESOURCE_SERVER, operation);
    return scopes ?? [];
  }

  private async add(permissions: readonly string[], present: readonly Scope[], operation: Operation): Promise<void> {
    let scopes = present;
    for (let attempt = 0; lacking(scopes, permissions).length > 0; attempt++) {
      if (attempt === ATTEMPTS) throw new ProviderUnavailable("The API's scopes are overwritten by others.");
      await this.write([...scopes, ...lacking(scopes, permissions).map((value) => ({ value }))], operation);
      scopes = await this.read(operation);
    }
  }

  private async write(scopes: readonly Scope[], operation: Operation): Promise<void> {
    try {
      const answer = await this.api.call({ method: 'PATCH', path: this.path, body: { scopes }, operation });
      if (answer.status === 400) throw new InvalidIdentityValue('permissions');
      // Auth0's documentation says that the status is 201, but a tenant answers 200.
      if (answer.status !== 200 && answer.status !== 201) throw unexpected(answer);
    } catch (error) {
      // If it is uncertain whether the list of scopes was written, the read that follows each write shows it.
      if (!mayBeDone(error)) throw error;
    } finally {
      this.writes++;
    }
  }

  private inTurn(work: () => Promise<void>): Promise<void> {
    const done = this.turn.then(work);
    this.turn = done.catch(() => undefined);
    return done;
  }
}

function lacking(scopes: readonly Scope[], permissions: readonly string[]): string[] {
  const values = new Set(scopes.map(({ value }) => value));
  return permissions.filter((permission) => !values.has(permission));
}

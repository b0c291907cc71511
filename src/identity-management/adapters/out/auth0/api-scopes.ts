import { z } from 'zod';
import { OneAtATime } from '../../../../common/one-at-a-time.js';
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
 * How long a list of scopes counts as current after it was read, in milliseconds. An older list is read again before it
 * is extended and written back, because others may have changed it.
 */
const FRESH_MS = 200;

/**
 * The scopes of an API of the tenant, which are the permissions that the tenant's roles can have. Auth0 replaces the
 * whole list of scopes at once and has no conditional update. A change that others make between a read and a write of
 * this process is lost. Within this process, writes run one at a time. After each write, the list is read back. If
 * scopes are missing from it then, because others have overwritten the list, it is written again, up to five writes in
 * all.
 */
export class ApiScopes {
  private readonly path: string;
  private readonly changes = new OneAtATime();
  /**
   * How many writes of the list of scopes this process has finished, including failed ones. A list that was read before
   * the latest write may be outdated.
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
   * Adds these permissions to the API's scopes, unless the API has them already. Takes one call to Auth0 if no
   * permission is missing, otherwise usually three: a read, a write, and a read that checks the write.
   *
   * @throws InvalidIdentityValue when Auth0 refuses the scopes, for example because the API has no room for more.
   * ProviderUnavailable when permissions are still missing after five writes, because others have overwritten the list
   * or Auth0 didn't carry out writes whose answers were lost. Otherwise as `ApiClient.get`.
   */
  async ensure(permissions: readonly string[], operation: Operation): Promise<void> {
    const { writes } = this;
    const scopes = await this.read(operation);
    const freshUntil = performance.now() + FRESH_MS;
    if (lacking(scopes, permissions).length === 0) return;
    await this.changes.run(async () => {
      // `scopes` was read before the wait for other changes of this process. It is used only if it is recent, and this
      // process has finished no write since. Otherwise the list of scopes is read again.
      const isFresh = writes === this.writes && performance.now() < freshUntil;
      await this.add(permissions, isFresh ? scopes : await this.read(operation), operation);
    });
  }

  /**
   * Reads the API's scopes.
   *
   * @throws ProviderError when the API doesn't exist; otherwise as `ApiClient.get`.
   */
  async read(operation: Operation): Promise<readonly Scope[]> {
    const { scopes } = await this.api.get(this.path, RESOURCE_SERVER, operation);
    return scopes ?? [];
  }

  private async add(permissions: readonly string[], present: readonly Scope[], operation: Operation): Promise<void> {
    let scopes = present;
    for (let attempt = 0; lacking(scopes, permissions).length > 0; attempt++) {
      if (attempt === ATTEMPTS) throw new ProviderUnavailable(`Others overwrote the API's scopes after each of ${ATTEMPTS} writes.`);
      await this.write([...scopes, ...lacking(scopes, permissions).map((value) => ({ value }))], operation);
      scopes = await this.read(operation);
    }
  }

  private async write(scopes: readonly Scope[], operation: Operation): Promise<void> {
    try {
      const answer = await this.api.call({ method: 'PATCH', path: this.path, body: { scopes }, operation });
      if (answer.status === 400) throw new InvalidIdentityValue('permissions');
      // Auth0's documentation says that this call answers 201, but a real tenant answers 200.
      if (answer.status !== 200 && answer.status !== 201) throw unexpected(answer);
    } catch (error) {
      // An unknown outcome of the write isn't an error here, because the list of scopes is read back after each write,
      // which shows the outcome.
      if (!mayBeDone(error)) throw error;
    } finally {
      this.writes++;
    }
  }
}

function lacking(scopes: readonly Scope[], permissions: readonly string[]): string[] {
  const values = new Set(scopes.map(({ value }) => value));
  return permissions.filter((permission) => !values.has(permission));
}

import { z } from 'zod';
import { OneAtATime } from '../../../../common/one-at-a-time.js';
import { InvalidIdentityValue, ProviderUnavailable } from '../../../domain/errors.js';
import { type ApiClient, unexpected } from '../provider-api/api-client.js';
import { mayBeDone } from '../provider-api/api-failure.js';
import type { Operation } from '../provider-api/operation.js';

const SCOPE = z.object({ value: z.string(), description: z.string().nullish() });
/** Auth0 omits `scopes` if the API has none. */
const RESOURCE_SERVER = z.object({ identifier: z.string(), scopes: z.array(SCOPE).nullish() });

type Scope = z.infer<typeof SCOPE>;

const ATTEMPTS = 5;
/** A list of scopes older than this is read again before it is extended and written: others may have changed it. */
const FRESH_MS = 200;

/**
 * The scopes of an API, which are the permissions that the tenant's roles can have. Auth0 replaces the whole list at
 * once and has no conditional update. A change that others make between a read and a write of this process is lost.
 * Within this process, writes run one at a time. Each write is read back, and repeated if others have overwritten it,
 * up to five writes in all.
 */
export class ApiScopes {
  private readonly path: string;
  private readonly changes = new OneAtATime();
  /** The number of finished writes, including failed ones. A list that was read before the latest may be outdated. */
  private writes = 0;

  constructor(
    private readonly api: ApiClient,
    audience: string,
  ) {
    this.path = `/resource-servers/${encodeURIComponent(audience)}`;
  }

  /**
   * Adds these permissions to the API's scopes. Takes one call if the API has them all, otherwise usually three.
   *
   * @throws InvalidIdentityValue when Auth0 refuses the scopes, for example because the API has no room for more;
   * ProviderUnavailable when permissions are still missing after five writes; otherwise as `ApiClient.get`.
   */
  async ensure(permissions: readonly string[], operation: Operation): Promise<void> {
    const { writes } = this;
    const scopes = await this.read(operation);
    const freshUntil = performance.now() + FRESH_MS;
    if (lacking(scopes, permissions).length === 0) return;
    await this.changes.run(async () => {
      // The list was read before the wait for other changes, so it must be recent, and no write may have ended since.
      const isFresh = writes === this.writes && performance.now() < freshUntil;
      await this.add(permissions, isFresh ? scopes : await this.read(operation), operation);
    });
  }

  /** @throws as `ApiClient.get`. */
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
      // An unknown outcome is no error: the list is read back after each write, which shows whether it was written.
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

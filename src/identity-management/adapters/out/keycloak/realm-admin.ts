import { z } from 'zod';
import { ProviderError } from '../../../domain/errors.js';
import { ProviderAdmin } from '../provider-requirements/provider-admin.js';
import { refusalOf } from './admin-api.js';

export const NAMED = z.object({ id: z.string(), name: z.string() });
export const NAMED_ONES = z.array(NAMED);
type Named = z.infer<typeof NAMED>;
const CLIENT = z.looseObject({ id: z.string(), clientId: z.string() });
type Client = z.infer<typeof CLIENT>;

/** Reads and changes a realm through Keycloak's Admin API. `find` returns undefined for a missing realm too. */
export class RealmAdmin extends ProviderAdmin {
  async client(clientId: string): Promise<Client | undefined> {
    return (await this.find(`/clients?clientId=${encodeURIComponent(clientId)}`, z.array(CLIENT)))?.[0];
  }

  /** @throws ProviderError when the realm has no such client. */
  async pathOfClient(clientId: string): Promise<string> {
    const client = await this.client(clientId);
    if (!client) throw new ProviderError(`There is no client "${clientId}".`);
    return `/clients/${client.id}`;
  }

  /** The roles of a client; empty if there is no such client. */
  async rolesOfClient(clientId: string): Promise<readonly Named[]> {
    const client = await this.client(clientId);
    return client ? await this.get(`/clients/${client.id}/roles`, NAMED_ONES) : [];
  }

  protected override reasonOf(body: unknown): string | undefined {
    const { error, errorMessage } = refusalOf(body);
    return errorMessage ?? error;
  }
}

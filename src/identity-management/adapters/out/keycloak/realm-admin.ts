import { z } from 'zod';
import { ProviderError } from '../../../domain/errors.js';
import { type ApiAnswer, type ApiClient, read } from '../provider-api/api-client.js';
import type { Operation } from '../provider-api/operation.js';

export const NAMED = z.object({ id: z.string(), name: z.string() });
export type Named = z.infer<typeof NAMED>;
const CLIENT = z.looseObject({ id: z.string(), clientId: z.string() });
export type Client = z.infer<typeof CLIENT>;
const REFUSAL = z.object({ error: z.string().optional(), errorMessage: z.string().optional() });

/** Reads and changes a realm, with the rights of the API's token. */
export class RealmAdmin {
  constructor(
    private readonly api: ApiClient,
    private readonly operation: Operation,
  ) {}

  /** @throws as `ApiClient.get`. */
  get<Schema extends z.ZodType>(path: string, schema: Schema): Promise<z.infer<Schema>> {
    return this.api.get(path, schema, this.operation);
  }

  /** Undefined if it, or the whole realm, doesn't exist in Keycloak. Otherwise like `get`. */
  async find<Schema extends z.ZodType>(path: string, schema: Schema): Promise<z.infer<Schema> | undefined> {
    const answer = await this.api.call({ method: 'GET', path, operation: this.operation });
    return answer.status === 404 ? undefined : read(answer, schema);
  }

  /** @throws ProviderError with Keycloak's reason when it refuses; otherwise as `ApiClient.call`. */
  async send(method: 'POST' | 'PUT', path: string, body?: unknown): Promise<void> {
    assertDone(await this.api.call({ method, path, body, operation: this.operation }));
  }

  /** The client with this `clientId`; undefined if there is none. */
  async client(clientId: string): Promise<Client | undefined> {
    return (await this.find(`/clients?clientId=${encodeURIComponent(clientId)}`, z.array(CLIENT)))?.[0];
  }

  /** @throws ProviderError when there is no such client. */
  async pathOfClient(clientId: string): Promise<string> {
    const client = await this.client(clientId);
    if (!client) throw new ProviderError(`There is no client "${clientId}".`);
    return `/clients/${client.id}`;
  }

  /** The client's roles; empty if there is no such client. */
  async rolesOfClient(clientId: string): Promise<readonly Named[]> {
    const client = await this.client(clientId);
    return client ? await this.get(`/clients/${client.id}/roles`, z.array(NAMED)) : [];
  }
}

/** @throws ProviderError with Keycloak's reason, unless the status is a success. */
export function assertDone({ label, status, body }: ApiAnswer): void {
  if (status >= 200 && status < 300) return;
  const { error, errorMessage } = REFUSAL.safeParse(body).data ?? {};
  const reason = errorMessage ?? error;
  throw new ProviderError(`${label} with ${status}${reason === undefined ? '.' : `: ${reason}`}`);
}

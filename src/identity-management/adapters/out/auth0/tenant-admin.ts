import { z } from 'zod';
import { ProviderError } from '../../../domain/errors.js';
import { type ApiAnswer, type ApiClient, read } from '../provider-api/api-client.js';
import type { Operation } from '../provider-api/operation.js';
import { listPages } from './list-pages.js';

const REFUSAL = z.object({ message: z.string() });

/** Reads and changes a tenant, with the scopes of the API's token. */
export class TenantAdmin {
  /** @param turn returns the operation of a call. */
  constructor(
    private readonly api: ApiClient,
    private readonly turn: () => Operation,
  ) {}

  /** @throws as `ApiClient.get`. */
  get<Schema extends z.ZodType>(path: string, schema: Schema): Promise<z.infer<Schema>> {
    return this.api.get(path, schema, this.turn());
  }

  /** Undefined if it doesn't exist at Auth0. Otherwise like `get`. */
  async find<Schema extends z.ZodType>(path: string, schema: Schema): Promise<z.infer<Schema> | undefined> {
    const answer = await this.api.call({ method: 'GET', path, operation: this.turn() });
    return answer.status === 404 ? undefined : read(answer, schema);
  }

  /**
   * All items of a list with pages.
   *
   * @param member the member of an answer that contains the items.
   * @throws as `get`.
   */
  async all<Schema extends z.ZodType>(path: string, member: string, schema: Schema): Promise<z.infer<Schema>[]> {
    const found: z.infer<Schema>[] = [];
    for await (const page of listPages(this.api, path, { member, schema, turn: this.turn })) found.push(...page);
    return found;
  }

  /**
   * @returns the answer's body.
   * @throws ProviderError with Auth0's reason when it refuses; otherwise as `ApiClient.call`.
   */
  async send(method: 'POST' | 'PATCH', path: string, body: unknown): Promise<unknown> {
    const answer = await this.api.call({ method, path, body, operation: this.turn() });
    assertDone(answer);
    return answer.body;
  }
}

function assertDone({ label, status, body }: ApiAnswer): void {
  if (status >= 200 && status < 300) return;
  const { message } = REFUSAL.safeParse(body).data ?? {};
  throw new ProviderError(`${label} with ${status}${message === undefined ? '.' : `: ${message}`}`);
}

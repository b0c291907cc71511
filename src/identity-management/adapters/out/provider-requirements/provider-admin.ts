import type { z } from 'zod';
import { ProviderError } from '../../../domain/errors.js';
import type { ApiClient } from '../provider-api/api-client.js';
import type { Operation } from '../provider-api/operation.js';

/** Reads and changes the settings of an identity provider, with the rights of the API client's token. */
export abstract class ProviderAdmin {
  constructor(
    protected readonly api: ApiClient,
    protected readonly operation: () => Operation,
  ) {}

  get<Schema extends z.ZodType>(path: string, schema: Schema): Promise<z.infer<Schema>> {
    return this.api.get(path, schema, this.operation());
  }

  find<Schema extends z.ZodType>(path: string, schema: Schema): Promise<z.infer<Schema> | undefined> {
    return this.api.find(path, schema, this.operation());
  }

  /**
   * Sends a request that changes the provider's settings, and returns the answer's body.
   *
   * @throws ProviderError when the provider refuses the change; otherwise as `ApiClient.call`.
   */
  async send(method: 'POST' | 'PUT' | 'PATCH', path: string, body?: unknown): Promise<unknown> {
    const answer = await this.api.call({ method, path, body, operation: this.operation() });
    const { label, status } = answer;
    if (status >= 200 && status < 300) return answer.body;
    const reason = this.reasonOf(answer.body);
    throw new ProviderError(`${label} with ${status}${reason === undefined ? '.' : `: ${reason}`}`);
  }

  protected abstract reasonOf(body: unknown): string | undefined;
}

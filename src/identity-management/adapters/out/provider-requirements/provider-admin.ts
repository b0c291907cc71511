import type { z } from 'zod';
import { ProviderError } from '../../../domain/errors.js';
import type { ApiClient } from '../provider-api/api-client.js';
import type { Operation } from '../provider-api/operation.js';

/** Reads and changes the settings of a provider, with the rights of the API's token. */
export abstract class ProviderAdmin {
  /** @param operation returns the operation of a call. */
  constructor(
    protected readonly api: ApiClient,
    protected readonly operation: () => Operation,
  ) {}

  /** @throws as `ApiClient.get`. */
  get<Schema extends z.ZodType>(path: string, schema: Schema): Promise<z.infer<Schema>> {
    return this.api.get(path, schema, this.operation());
  }

  /** Undefined if it doesn't exist. Otherwise like `get`. */
  find<Schema extends z.ZodType>(path: string, schema: Schema): Promise<z.infer<Schema> | undefined> {
    return this.api.find(path, schema, this.operation());
  }

  /**
   * @returns the answer's body.
   * @throws ProviderError with the provider's reason when it refuses; otherwise as `ApiClient.call`.
   */
  async send(method: 'POST' | 'PUT' | 'PATCH', path: string, body?: unknown): Promise<unknown> {
    const answer = await this.api.call({ method, path, body, operation: this.operation() });
    const { label, status } = answer;
    if (status >= 200 && status < 300) return answer.body;
    const reason = this.reasonOf(answer.body);
    throw new ProviderError(`${label} with ${status}${reason === undefined ? '.' : `: ${reason}`}`);
  }

  /** Why the provider refused a change, according to the answer's body; undefined if it doesn't say. */
  protected abstract reasonOf(body: unknown): string | undefined;
}

import { z } from 'zod';
import { ProviderAdmin } from '../provider-requirements/provider-admin.js';
import { listPages } from './management-api.js';

const REFUSAL = z.object({ message: z.string() });

/** Reads and changes an Auth0 tenant through the Management API. */
export class TenantAdmin extends ProviderAdmin {
  /**
   * Reads all pages of a list.
   *
   * @param member the answer's member that contains the items.
   * @throws as `get`.
   */
  async all<Schema extends z.ZodType>(path: string, member: string, schema: Schema): Promise<z.infer<Schema>[]> {
    const found: z.infer<Schema>[] = [];
    for await (const page of listPages(this.api, path, { member, schema, operation: this.operation })) found.push(...page);
    return found;
  }

  protected override reasonOf(body: unknown): string | undefined {
    return REFUSAL.safeParse(body).data?.message;
  }
}

import { decodeJwt } from 'jose';
import type { z } from 'zod';
import { ProviderError } from '../../../domain/errors.js';
import { TokenRefused } from '../provider-api/api-failure.js';

/**
 * The service's token, or why it gets none.
 *
 * @param problemOf says it, in a sentence that holds no secret; undefined where the refusal doesn't tell.
 * @throws what `get` does, but for a refusal that tells.
 */
export async function tokenOrProblem(
  get: () => Promise<string>,
  problemOf: (refusal: TokenRefused) => string | undefined,
): Promise<{ readonly value: string } | { readonly problem: string }> {
  try {
    return { value: await get() };
  } catch (error) {
    const problem = error instanceof TokenRefused ? problemOf(error) : undefined;
    if (problem === undefined) throw error;
    return { problem };
  }
}

/** @throws ProviderError when it is no JWT, or its claims have another form. */
export function claimsOf<Schema extends z.ZodType>(token: string, schema: Schema): z.infer<Schema> {
  try {
    return schema.parse(decodeJwt(token));
  } catch (error) {
    throw new ProviderError("The service's token has another form.", { cause: error });
  }
}

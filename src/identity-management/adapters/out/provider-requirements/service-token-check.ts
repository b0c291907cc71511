import { decodeJwt } from 'jose';
import type { z } from 'zod';
import { ProviderError } from '../../../domain/errors.js';
import { TokenRefused } from '../provider-api/api-failure.js';

/**
 * Gets the service's token, or a problem to report if the provider refuses to issue one.
 *
 * @param problemOf describes the provider's refusal in a sentence without secrets; returns undefined if the reason is
 * not recognized.
 * @throws errors of `get`, except a refusal that `problemOf` describes.
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

/**
 * Returns the claims of the service's token. Doesn't verify the token's signature.
 *
 * @throws ProviderError when the token isn't a JWT, or its claims don't match the schema.
 */
export function claimsOf<Schema extends z.ZodType>(token: string, schema: Schema): z.infer<Schema> {
  try {
    return schema.parse(decodeJwt(token));
  } catch (error) {
    throw new ProviderError("The service's token has an unexpected form.", { cause: error });
  }
}

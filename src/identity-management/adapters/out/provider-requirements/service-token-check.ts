import { decodeJwt } from 'jose';
import type { z } from 'zod';
import { ProviderError } from '../../../domain/errors.js';
import { TokenRefused } from '../provider-api/api-failure.js';

/**
 * Gets the service's token, or the problem to report if the provider refuses to issue one.
 *
 * @param problemOf describes the refusal without secrets; undefined if the reason isn't recognized.
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
 * Returns the claims of the service's token, without verifying its signature.
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

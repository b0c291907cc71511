import { z } from 'zod';
import { invalidBody } from './management-error.js';

export interface ApiCall {
  readonly id: string;
  readonly query: URLSearchParams;
  readonly body: unknown;
  readonly scopes: ReadonlySet<string>;
}

export interface RouteAnswer {
  readonly status: number;
  readonly body?: unknown;
}

export interface Route {
  readonly operation: string;
  /** The access token must have all of these scopes, or at least one of them if `anyScope` is true. */
  readonly scopes: readonly string[];
  readonly anyScope?: boolean;
  readonly answer: (call: ApiCall) => RouteAnswer;
}

/** Returns a Zod schema for texts of `least` to `most` code points. */
export const text = (least: number, most: number) =>
  z.string().refine((value) => {
    const length = Array.from(value).length;
    return length >= least && length <= most;
  }, `Must have ${least} to ${most} characters`);

/**
 * Checks the body of a request against a schema, and returns the body.
 *
 * @throws ManagementError 400 `invalid_body` when the body doesn't match the schema.
 */
export function readBody<Schema extends z.ZodType>(schema: Schema, body: unknown): z.infer<Schema> {
  const { success, data, error } = schema.safeParse(body);
  if (success) return data;
  throw invalidBody(error.issues.map(({ message, path }) => `${message} on property ${path.join('.')}`).join(', '));
}

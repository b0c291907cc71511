import { z } from 'zod';
import { invalidBody } from './management-error.js';

export interface ApiCall {
  /** The `{id}` in the path, decoded once; empty if the path has none. */
  readonly id: string;
  readonly query: URLSearchParams;
  /** The parsed JSON; undefined if the request has no body. */
  readonly body: unknown;
  /** The scopes of the request's token. */
  readonly scopes: ReadonlySet<string>;
}

export interface ApiAnswer {
  readonly status: number;
  /** The body, which is sent as JSON. If the body is missing, none is sent. */
  readonly body?: unknown;
}

/** One operation of the Management API. */
export interface Route {
  /** Method and path after `/api/v2`, as in `GET /users/{id}`. */
  readonly operation: string;
  /** Scopes that the token must have: all of them, or one of them with `anyScope`. */
  readonly scopes: readonly string[];
  readonly anyScope?: boolean;
  /** Processes a call. Throws a ManagementError if the operation refuses the call. */
  readonly answer: (call: ApiCall) => ApiAnswer;
}

/** A schema for texts of `least` to `most` code points. */
export const text = (least: number, most: number) =>
  z.string().refine((value) => {
    const length = Array.from(value).length;
    return length >= least && length <= most;
  }, `Must have ${least} to ${most} characters`);

/** @throws ManagementError 400 `invalid_body` when the body doesn't match the schema. */
export function readBody<Schema extends z.ZodType>(schema: Schema, body: unknown): z.infer<Schema> {
  const { success, data, error } = schema.safeParse(body);
  if (success) return data;
  throw invalidBody(error.issues.map(({ message, path }) => `${message} on property ${path.join('.')}`).join(', '));
}

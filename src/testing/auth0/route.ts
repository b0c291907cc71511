import { z } from 'zod';
import { invalidBody } from './management-error.js';

export interface ApiCall {
  /** The part of the request's path that `{id}` stands for, percent-decoded; empty if the operation has no `{id}`. */
  readonly id: string;
  readonly query: URLSearchParams;
  /** The parsed JSON in the request's body; undefined if the request has no body. */
  readonly body: unknown;
  /** The scopes of the access token in the request. */
  readonly scopes: ReadonlySet<string>;
}

export interface ApiAnswer {
  readonly status: number;
  /** The body of the answer, sent as JSON. Undefined: no body is sent. */
  readonly body?: unknown;
}

/** One operation of the Management API. */
export interface Route {
  /** The operation's method, and its path after `/api/v2`, as in `GET /users/{id}`. */
  readonly operation: string;
  /** The scopes that the access token must have: all of them, or only one of them if `anyScope` is true. */
  readonly scopes: readonly string[];
  readonly anyScope?: boolean;
  /** Processes a call of the operation. Throws a ManagementError if the operation refuses the call. */
  readonly answer: (call: ApiCall) => ApiAnswer;
}

/** A schema for texts of `least` to `most` code points. */
export const text = (least: number, most: number) =>
  z.string().refine((value) => {
    const length = Array.from(value).length;
    return length >= least && length <= most;
  }, `Must have ${least} to ${most} characters`);

/**
 * Checks the body of a request and returns it.
 *
 * @throws ManagementError 400 `invalid_body` when the body doesn't match the schema.
 */
export function readBody<Schema extends z.ZodType>(schema: Schema, body: unknown): z.infer<Schema> {
  const { success, data, error } = schema.safeParse(body);
  if (success) return data;
  throw invalidBody(error.issues.map(({ message, path }) => `${message} on property ${path.join('.')}`).join(', '));
}

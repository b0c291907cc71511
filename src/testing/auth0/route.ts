import { z } from 'zod';
import { invalidBody } from './management-error.js';

export interface ApiCall {
  /** The path's `{id}`, decoded once; empty without one. */
  readonly id: string;
  readonly query: URLSearchParams;
  /** Parsed JSON; undefined without a body. */
  readonly body: unknown;
  /** What the token holds. */
  readonly scopes: ReadonlySet<string>;
}

export interface ApiAnswer {
  readonly status: number;
  /** Sent as JSON; nothing is sent when it is left out. */
  readonly body?: unknown;
}

/** One operation of the Management API. */
export interface Route {
  /** Method and path behind `/api/v2`, as in `GET /users/{id}`. */
  readonly operation: string;
  /** What the token must hold: all of them, unless `anyScope`. */
  readonly scopes: readonly string[];
  readonly anyScope?: boolean;
  /** @throws ManagementError */
  readonly answer: (call: ApiCall) => ApiAnswer;
}

/** A text by its number of Unicode characters. */
export const text = (least: number, most: number) =>
  z.string().refine((value) => {
    const length = Array.from(value).length;
    return length >= least && length <= most;
  }, `Must have ${least} to ${most} characters`);

/** @throws ManagementError 400 `invalid_body`. */
export function readBody<Schema extends z.ZodType>(schema: Schema, body: unknown): z.infer<Schema> {
  const { success, data, error } = schema.safeParse(body);
  if (success) return data;
  throw invalidBody(error.issues.map(({ message, path }) => `${message} on property ${path.join('.')}`).join(', '));
}

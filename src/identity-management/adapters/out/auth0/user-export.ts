import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { ProviderError, ProviderUnavailable } from '../../../domain/errors.js';
import { type ApiClient, read } from '../provider-api/api-client.js';
import { AnswerUnreadable } from '../provider-api/api-failure.js';
import type { ListOperations } from '../provider-api/operation.js';
import { FOUND_USER, type FoundUser, USER_FIELDS } from './found-user.js';
import { ListCalls } from './list-calls.js';

const NEW_JOB = z.object({ id: z.string() });
const JOB = z.object({ status: z.string(), location: z.string().nullish() });

const PAUSES_MS = [500, 1_000, 2_000, 4_000];
const GIVE_UP_AFTER_MS = 1_800_000;
const USERS_PER_PAGE = 500;

/**
 * Reads all users of the tenant with an export job. Yields empty pages until the job's file is ready, so that the
 * consumer sees progress.
 *
 * @throws ProviderError when the job fails, or a line of its file isn't a user in the known form; ProviderUnavailable
 * when the job takes more than half an hour; errors of `ApiClient`.
 */
export async function* exportedUsers(api: ApiClient, operations: ListOperations): AsyncGenerator<readonly FoundUser[], void, undefined> {
  const { signal } = operations;
  const body = { format: 'json', fields: USER_FIELDS.map((name) => ({ name })) };
  const { id } = read(await api.call({ method: 'POST', path: '/jobs/users-exports', body, operation: operations.next() }), NEW_JOB);
  const calls = new ListCalls(operations);
  const end = performance.now() + GIVE_UP_AFTER_MS;
  for (let look = 0; performance.now() < end; look++) {
    yield [];
    // The pause fails when the signal has aborted; the next call then fails too.
    await delay(PAUSES_MS[Math.min(look, PAUSES_MS.length - 1)], undefined, { signal }).catch(() => undefined);
    const job = await calls.make((operation) => api.get(`/jobs/${encodeURIComponent(id)}`, JOB, operation));
    if (!job) continue;
    if (job.status === 'failed') throw new ProviderError('The export of users has failed.');
    if (job.status === 'completed' && typeof job.location === 'string') {
      yield* pages(api.lines(job.location, signal));
      return;
    }
  }
  throw new ProviderUnavailable('The export of users takes too long.');
}

async function* pages(lines: AsyncIterable<string>): AsyncGenerator<readonly FoundUser[], void, undefined> {
  let page: FoundUser[] = [];
  for await (const line of lines) {
    if (line.trim() === '') continue;
    page.push(parse(line));
    if (page.length < USERS_PER_PAGE) continue;
    yield page;
    page = [];
  }
  yield page;
}

function parse(line: string): FoundUser {
  try {
    return FOUND_USER.parse(JSON.parse(line));
  } catch (error) {
    throw new AnswerUnreadable("A line of Auth0's export isn't in the expected form.", { cause: error });
  }
}

import { expect, it } from 'vitest';
import { toStatusFailure } from './api-failure.js';

it.each([
  ['7', 7],
  ['60', 60],
  ['99999', 60],
  ['0', 10],
  ['-1', 10],
  ['Wed, 25 Nov 2026 00:00:00 GMT', 10],
  [undefined, 10],
])('a provider that is unavailable with Retry-After %s is tried again after %i s', (retryAfter, seconds) => {
  expect(toStatusFailure('down', 503, retryAfter)).toMatchObject({ kind: 'provider-unavailable', retryAfterSeconds: seconds });
});

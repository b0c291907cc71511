import { describe, expect, it } from 'vitest';
import { IDEMPOTENCY_PERIOD_MS, isKeptUnderKey } from './idempotency.js';

describe('isKeptUnderKey', () => {
  const receivedAt = new Date('2025-03-30T12:00:00.000Z');
  const after = (milliseconds: number) => isKeptUnderKey(receivedAt, receivedAt.getTime() + milliseconds);

  it.each([
    ['at once', 0, true],
    ['one millisecond before 24 hours', IDEMPOTENCY_PERIOD_MS - 1, true],
    ['after exactly 24 hours', IDEMPOTENCY_PERIOD_MS, false],
    ['after more than 24 hours', IDEMPOTENCY_PERIOD_MS + 1, false],
    ['before it was received, on a clock that was set back', -3 * IDEMPOTENCY_PERIOD_MS, true],
  ])('decides whether a key is kept %s', (_, milliseconds, isKept) => {
    expect(after(milliseconds)).toBe(isKept);
  });
});

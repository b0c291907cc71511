import { describe, expect, it } from 'vitest';
import { IDEMPOTENCY_PERIOD_MS, isKeptUnderKey } from './idempotency.js';

describe('isKeptUnderKey', () => {
  const receivedAt = new Date('2025-03-30T12:00:00.000Z');
  const after = (milliseconds: number) => isKeptUnderKey(receivedAt, receivedAt.getTime() + milliseconds);

  it.each([
    ['at once', 0, true],
    ['a millisecond before 24 hours are over', IDEMPOTENCY_PERIOD_MS - 1, true],
    ['after exactly 24 hours', IDEMPOTENCY_PERIOD_MS, false],
    ['later', IDEMPOTENCY_PERIOD_MS + 1, false],
    ['before it was received, by a clock that went back', -3 * IDEMPOTENCY_PERIOD_MS, true],
  ])('%s', (_, milliseconds, isKept) => {
    expect(after(milliseconds)).toBe(isKept);
  });
});

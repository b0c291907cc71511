import { parseEnv } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { toDotEnv } from './dot-env-format.js';

const value = fc.string({ unit: fc.constantFrom('a', 'n', ' ', '#', '$', '\\', '=', '"', "'", '`', 'é', '€'), maxLength: 8 });

describe('a .env file', () => {
  it('gives Node the original values', () => {
    fc.assert(
      fc.property(value, value, (one, other) => {
        fc.pre(![one, other].some((text) => text.includes("'") && text.includes('`') && /"|\\n/.test(text)));
        expect(parseEnv(toDotEnv({ ONE: one, OTHER: other }))).toEqual({ ONE: one, OTHER: other });
      }),
      { numRuns: 1_000 },
    );
  });

  it.each(['"\'`', "\\n'`", 'two\nlines'])('is not written for a value that it cannot represent: %j', (impossible) => {
    expect(() => toDotEnv({ SECRET: impossible })).toThrow(/^SECRET can't be written/);
  });
});

import * as fc from 'fast-check';

const isSurrogate = (codePoint: number): boolean => codePoint >= 0xd800 && codePoint <= 0xdfff;

const character = fc
  .integer({ min: 0, max: 0x10ffff })
  .filter((codePoint) => !isSurrogate(codePoint))
  .map(
    (codePoint) => String.fromCodePoint(codePoint),
    (text) => (typeof text === 'string' ? text.codePointAt(0) : undefined) ?? NaN,
  );

/** Random texts as by `fc.string({ unit: 'binary' })`, which takes a second per process for a table of code points. */
export const anyText = (constraints: Omit<fc.StringConstraints, 'unit'> = {}): fc.Arbitrary<string> => fc.string({ ...constraints, unit: character });

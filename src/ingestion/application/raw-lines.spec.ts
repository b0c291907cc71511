import { expect, it } from 'vitest';
import { rawLines } from './raw-lines.js';

it('yields the complete lines with their places in the file, but none that are skipped', () => {
  const bytes = Buffer.from('one\ntwo\n\nfour\nincompl');
  const lines = [...rawLines(bytes, 100, (begin) => begin === 4)].map(({ begin, end, bytes: line }) => [begin, end, line.toString()]);
  expect(lines).toEqual([[100, 104, 'one'], [108, 109, ''], [109, 114, 'four']]);
});

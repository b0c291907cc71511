import { Readable } from 'node:stream';
import { expect, it } from 'vitest';
import { wholeBody } from './whole-body.js';

it.each<[string, number | undefined]>([
  ['that was announced', 6],
  ['of which only a part was announced, to the middle of a piece', 4],
  ['of which only a part was announced, to the end of a piece', 5],
  ['of which more was announced', 9],
  ['that was not announced', undefined],
])('reads a whole body %s (%s)', async (_, length) => {
  expect((await wholeBody(Readable.from(['byt', 'es', '!'].map((piece) => Buffer.from(piece))), length)).toString()).toBe('bytes!');
});

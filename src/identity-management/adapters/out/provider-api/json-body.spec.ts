import { describe, expect, it } from 'vitest';
import { JsonBody } from './json-body.js';

const tricky = { name: 'a "},{" b', nested: [{ id: 1 }, { id: 2, list: ['},{', '\\'] }], text: '€ },{ \\" 𝄞' };
const long = (item: unknown): unknown[] => Array.from({ length: 2_000 }, (_, number) => (number % 3 === 0 ? { number } : item));

/** What comes out of a text that comes in pieces of so many characters. */
function parsed(text: string, length: number): unknown {
  const body = new JsonBody();
  for (let at = 0; at < text.length; at += length) body.add(text.slice(at, at + length));
  return body.parse();
}

describe.each([1_000, 4_099, 16_384, 20_000, 1_000_000])('in pieces of %i characters', (length) => {
  it.each([
    ['a long list', long({ name: 'Auditor' })],
    ['a list whose texts and members look like an end', long(tricky)],
    ['one long item', [tricky.text.repeat(5_000)]],
    ['lists in a list', Array.from({ length: 500 }, () => long(tricky).slice(0, 5))],
    ['a list in an object', { users: long(tricky) }],
    ['an empty list', []],
    ['a text', 'x'.repeat(40_000)],
  ])('parses %s as JSON.parse does', (_, value) => {
    expect(parsed(JSON.stringify(value), length)).toEqual(value);
    expect(parsed(JSON.stringify(value, null, 1), length)).toEqual(value);
  });

  it.each([
    ['breaks off', (text: string) => text.slice(0, -10)],
    ['breaks off between two items', (text: string) => text.slice(0, text.lastIndexOf('},{') + 1)],
    ['has something behind it', (text: string) => `${text},{}]`],
    ['ends as another one', (text: string) => `${text.slice(0, -1)}}`],
    ['has no comma', (text: string) => text.replace('},{', '}{')],
    ['has two commas', (text: string) => text.replace('},{', '},,{')],
  ])('throws where a list %s', (_, broken) => {
    expect(() => parsed(broken(JSON.stringify(long(tricky))), length)).toThrow(SyntaxError);
  });
});

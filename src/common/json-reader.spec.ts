import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { anyText } from '../../test/support/any-text.js';
import { casesOf } from '../../test/support/cases.js';
import { type JsonMember, OTHER_VALUE } from './json-members.js';
import { JsonReader } from './json-reader.js';
import { isJsonObject } from './text.js';

const WANTED: ReadonlySet<string> = new Set(['text', 'list', '__proto__', 'ünï']);
const REFUSED = Symbol('refused');

interface Read {
  readonly isObject: boolean;
  readonly members: Record<string, JsonMember>;
  readonly hasOtherMembers: boolean;
}

function* inChunks(bytes: Buffer, sizes: readonly number[]): Generator<Buffer> {
  for (let at = 0, index = 0; at < bytes.length; index++) {
    const size = sizes[index % sizes.length] ?? 1;
    yield bytes.subarray(at, at + size);
    at += size;
  }
}

function read(bytes: Buffer, sizes: readonly number[]): Read | typeof REFUSED {
  const reader = new JsonReader(WANTED);
  try {
    for (const chunk of inChunks(bytes, sizes)) reader.add(chunk);
    reader.end();
  } catch (error) {
    if (error instanceof SyntaxError) return REFUSED;
    throw error;
  }
  const { isObject, members, hasOtherMembers } = reader;
  return { isObject, members: sorted(members), hasOtherMembers };
}

/** The expected result of `JsonReader` for a text, computed with `JSON.parse`. */
function parse(bytes: Buffer): Read | typeof REFUSED {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch {
    return REFUSED;
  }
  if (!isJsonObject(value)) return { isObject: false, members: {}, hasOtherMembers: false };
  const entries = Object.entries(value);
  const members = new Map<string, JsonMember>(entries.filter(([name]) => WANTED.has(name)).map(([name, member]) => [name, expected(member)]));
  return { isObject: true, members: sorted(members), hasOtherMembers: entries.some(([name]) => !WANTED.has(name)) };
}

function expected(value: unknown): JsonMember {
  if (typeof value === 'string' || value === null) return value;
  return Array.isArray(value) && value.every((item) => typeof item === 'string') ? [...new Set(value)] : OTHER_VALUE;
}

const sorted = (members: ReadonlyMap<string, JsonMember>): Record<string, JsonMember> =>
  Object.fromEntries([...members].sort(([a], [b]) => (a < b ? -1 : 1)));

const sizes = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 5 });
const name = fc.oneof(fc.constantFrom(...WANTED, 'text\u0000', 'tex', ''), anyText());
const text = fc.oneof(anyText(), fc.string({ unit: 'grapheme' }));
const value = fc.oneof(text, fc.array(fc.constantFrom('a', 'ä', '"', '\u0000')), fc.jsonValue(), fc.constant(null), fc.constant([[], 'a']));
/** Generates the members of an object: pairs of a name and a value, in order. A name may be repeated. */
const members = fc.array(fc.tuple(name, value), { maxLength: 6 });
const escaped = (json: string): string =>
  json.replace(/[^\x00-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`); // eslint-disable-line no-control-regex
const document = fc
  .tuple(members, fc.constantFrom('', ' ', '\r\n\t '), fc.constantFrom('', '\ufeff', '\ufeff\ufeff'), fc.boolean())
  .map(([pairs, blank, mark, isEscaped]) => {
    const json = pairs.map(([key, member]) => `${blank}${JSON.stringify(key)}${blank}:${blank}${JSON.stringify(member, null, blank)}`).join(',');
    return Buffer.from(`${mark}${blank}{${isEscaped ? escaped(json) : json}${blank}}${blank}`);
  });
// Only a few short pieces, so that random sequences of them are often valid JSON, or nearly so.
const pieces = fc.constantFrom(
  ...['{', '}', '[', ']', ',', ':', '"', '\\', '\\u', '\\u00e4', '\\ud83d', '\\ude00', '\\x', '0', '-', '1', '.', 'e', 'E', '+', '01', '-0'],
  ...['true', 'tru', 'false', 'null', 'nul', ' ', '\n', '\u0000', '\u00a0', '\ufeff', 'ä', '😀', '"text"', '"list"', '{"text":', '["a",', '"__proto__":'],
);

describe('JsonReader', () => {
  it('reads the same as JSON.parse from an object, in whatever chunks it arrives', () => {
    fc.assert(fc.property(document, sizes, (bytes, chunkSizes) => {
      expect(read(bytes, chunkSizes)).toEqual(parse(bytes));
    }), { numRuns: casesOf(2_000) });
  });

  it('reads the same as JSON.parse from any value', () => {
    fc.assert(fc.property(fc.json(), sizes, (json, chunkSizes) => {
      expect(read(Buffer.from(json), chunkSizes)).toEqual(parse(Buffer.from(json)));
    }), { numRuns: casesOf(1_000) });
  });

  it('accepts and rejects changed documents like JSON.parse', () => {
    const change = fc.tuple(fc.nat(), fc.integer({ min: 0, max: 3 }), fc.oneof(pieces.map((piece) => Buffer.from(piece)), fc.uint8Array({ maxLength: 2 })));
    fc.assert(fc.property(document, change, sizes, (bytes, [place, removed, added], chunkSizes) => {
      const at = place % (bytes.length + 1);
      const changed = Buffer.concat([bytes.subarray(0, at), added, bytes.subarray(at + removed)]);
      expect(read(changed, chunkSizes)).toEqual(parse(changed));
    }), { numRuns: casesOf(5_000) });
  });

  it('accepts and rejects a document like JSON.parse, whichever byte of it is left out, doubled, or replaced by another', () => {
    const json = '{"text":"a\\n\\u00e4", "list":["a","ä"],"x":{"y":[-1.5e2,{"z":true}],"w":{}},"v":null,"u":[]}\n';
    const bytes = Buffer.from(json);
    const parts = ['', '{', '}', '[', ']', ',', ':', ';', '"', '\\', ' ', '0', '-', '.', 'e', 'u', '\u0000', '\u00a0'];
    for (let at = 0; at < bytes.length; at++) {
      for (const part of [...parts, json.charAt(at).repeat(2)]) {
        const changed = Buffer.concat([bytes.subarray(0, at), Buffer.from(part), bytes.subarray(at + 1)]);
        for (const size of [1, bytes.length]) expect(read(changed, [size]), `${changed.toString()} in chunks of ${size}`).toEqual(parse(changed));
      }
    }
  });

  it('accepts and rejects combined pieces of JSON like JSON.parse', () => {
    fc.assert(fc.property(fc.array(pieces, { maxLength: 8 }), sizes, (parts, chunkSizes) => {
      const bytes = Buffer.from(parts.join(''));
      expect(read(bytes, chunkSizes)).toEqual(parse(bytes));
    }), { numRuns: casesOf(20_000) });
  });

  it('accepts and rejects numbers like JSON.parse', () => {
    const digits = fc.array(fc.constantFrom('0', '1', '-', '+', '.', 'e', 'E', ' '), { minLength: 1, maxLength: 7 });
    fc.assert(fc.property(digits, fc.constantFrom(['', ''], ['[', ']'], ['{"text":', '}']), sizes, (parts, [before, after], chunkSizes) => {
      const bytes = Buffer.from(`${before}${parts.join('')}${after}`);
      expect(read(bytes, chunkSizes)).toEqual(parse(bytes));
    }), { numRuns: casesOf(10_000) });
  });

  it.each([
    ['one level too many', `${'['.repeat(129)}${']'.repeat(129)}`],
    ['one level too many in a member', `{"x":${'{"y":'.repeat(128)}1${'}'.repeat(128)}}`],
  ])('rejects %s', (_, json) => {
    expect(read(Buffer.from(json), [7])).toBe(REFUSED);
  });

  it('accepts 128 levels', () => {
    expect(read(Buffer.from(`{"text":${'['.repeat(127)}${']'.repeat(127)}}`), [7])).toMatchObject({ members: { text: OTHER_VALUE } });
  });

  it('builds a long text and a list of many texts, but no list of unlimited length', () => {
    const long = '\u0001😀"\\'.repeat(50_000);
    const list = Array.from({ length: 10_000 }, (_, item) => String(item));
    const bytes = (items: unknown[]): Buffer => Buffer.from(JSON.stringify({ text: long, list: items, x: long }));
    expect(read(bytes([...list, '0', '1']), [16_384])).toEqual({ isObject: true, members: { text: long, list }, hasOtherMembers: true });
    expect(read(bytes([...list, 'one more']), [16_384])).toMatchObject({ members: { list: OTHER_VALUE } });
  });

  it('reports another member before that member is complete', () => {
    const reader = new JsonReader(WANTED);
    reader.add(Buffer.from('{"text":"a","readings":[1,'));
    expect(reader.hasOtherMembers).toBe(true);
    expect(reader.members.get('text')).toBe('a');
  });
});

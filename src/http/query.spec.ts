import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { RawQuery } from './query.js';

const values = (query: string): string[] | undefined => new RawQuery({ url: `/path?${query}` }).values('name');
const text = fc.string({ unit: 'grapheme' });

describe('RawQuery', () => {
  it('returns the encoded values in order, among other parameters', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.boolean(), text)), (pairs) => {
        const query = pairs.map(([ours, value]) => `${ours ? 'name' : 'other'}=${encodeURIComponent(value)}`).join('&');
        expect(values(query)).toEqual(pairs.filter(([ours]) => ours).map(([, value]) => value));
      }),
    );
  });

  it('returns the same as URLSearchParams wherever that loses nothing', () => {
    fc.assert(
      fc.property(text, (value) => {
        const query = new URLSearchParams({ name: value }).toString();
        expect(values(query)).toEqual(new URLSearchParams(query).getAll('name'));
      }),
    );
  });

  it('never returns a value for text that is not percent-encoded UTF-8', () => {
    const broken = fc.constantFrom('%', '%4', '%zz', '%ff', '%C3', '%ED%A0%80', '%C0%AF', '\xff', '%F8%88%80%80%80');
    fc.assert(
      fc.property(text, broken, text, (before, middle, after) => {
        expect(values(`name=${encodeURIComponent(before)}${middle}${encodeURIComponent(after).replace(/^[0-9A-Fa-f]+/, '')}`)).toBeUndefined();
      }),
    );
  });

  it('never returns a value together with the form name[...], encoded or not', () => {
    fc.assert(
      fc.property(text, fc.constantFrom('name[', 'name%5B', '%6eame%5b', 'name[]', 'name[0]'), fc.boolean(), (value, other, first) => {
        const pairs = [`name=${encodeURIComponent(value)}`, `${other}=x`];
        expect(values((first ? pairs : pairs.reverse()).join('&'))).toBeUndefined();
      }),
    );
  });

  it('reads unencoded bytes as UTF-8', () => {
    expect(values(`name=${Buffer.from('Zürich 日本').toString('latin1').replace(' ', '+')}`)).toEqual(['Zürich 日本']);
  });

  it('never throws', () => {
    fc.assert(fc.property(fc.string({ unit: 'binary' }), (query) => void values(query)));
  });
});

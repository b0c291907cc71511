import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { anyText } from '../../test/support/any-text.js';
import { parseQuery } from './query.js';

const parse = (query: string) => parseQuery({ url: `/path?${query}` });

const text = fc.string({ unit: 'grapheme' });

describe('parseQuery', () => {
  it('returns the value of a parameter that the query has once, among others, and undefined for a repeated one', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.boolean(), text)), (pairs) => {
        const query = pairs.map(([isOurs, value]) => `${isOurs ? 'name' : 'other'}=${encodeURIComponent(value)}`).join('&');
        const ours = pairs.filter(([isOurs]) => isOurs).map(([, value]) => value);
        const entries = [...parse(query)].filter(([name]) => name === 'name');
        expect(entries).toEqual(ours.length > 0 ? [['name', ours.length === 1 ? ours[0] : undefined]] : []);
      }),
    );
  });

  it('returns the same as URLSearchParams wherever that loses nothing', () => {
    fc.assert(
      fc.property(text, (value) => {
        const query = new URLSearchParams({ name: value }).toString();
        expect([...parse(query)]).toEqual([...new URLSearchParams(query)]);
      }),
    );
  });

  it('never returns a value for text that is not percent-encoded UTF-8', () => {
    const broken = fc.constantFrom('%', '%4', '%zz', '%ff', '%C3', '%ED%A0%80', '%C0%AF', '\xff', '%F8%88%80%80%80');
    fc.assert(
      fc.property(text, broken, text, (before, middle, after) => {
        const query = `name=${encodeURIComponent(before)}${middle}${encodeURIComponent(after).replace(/^[0-9A-Fa-f]+/, '')}`;
        expect([...parse(query)]).toEqual([['name', undefined]]);
      }),
    );
  });

  it('never returns a value together with the form name[...], encoded or not', () => {
    fc.assert(
      fc.property(text, fc.constantFrom('name[', 'name%5B', '%6eame%5b', 'name[]', 'name[0]'), fc.boolean(), (value, other, first) => {
        const pairs = [`name=${encodeURIComponent(value)}`, `${other}=x`];
        expect([...parse((first ? pairs : pairs.reverse()).join('&'))]).toEqual([['name', undefined]]);
      }),
    );
  });

  it('reads unencoded bytes as UTF-8', () => {
    expect(parse(`name=${Buffer.from('Zürich 日本').toString('latin1').replace(' ', '+')}`).get('name')).toBe('Zürich 日本');
  });

  it('never throws', () => {
    fc.assert(fc.property(anyText(), (query) => void parse(query)));
  });
});

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { anyText } from '../../../../../test/support/any-text.js';
import { fromKeycloakNames, toKeycloakNames } from './user-name.js';

/**
 * Display names of up to 255 characters. One of them, at a random position, is `a`; each of the others has one or two
 * UTF-16 units.
 */
const names = fc.tuple(anyText({ maxLength: 254 }), fc.nat(254)).map(([text, at]) => {
  const characters = Array.from(text);
  characters.splice(at, 0, 'a');
  return characters.join('');
});

describe("a name in Keycloak's first and last name", () => {
  it('fits, and is unchanged when it is read', () => {
    fc.assert(
      fc.property(names, (name) => {
        const { firstName, lastName } = toKeycloakNames(name);
        expect(fromKeycloakNames(firstName, lastName)).toBe(name);
        expect(Math.max(firstName.length, lastName.length)).toBeLessThanOrEqual(255);
      }),
    );
  });

  it('is complete when it is long, without a split character', () => {
    expect(toKeycloakNames(`a${'😀'.repeat(254)}`)).toEqual({ firstName: `a${'😀'.repeat(127)}`, lastName: '😀'.repeat(127) });
    expect(toKeycloakNames(`${'😀'.repeat(254)}a`)).toEqual({ firstName: '😀'.repeat(127), lastName: `${'😀'.repeat(127)}a` });
    expect(toKeycloakNames('a'.repeat(255))).toEqual({ firstName: 'a'.repeat(255), lastName: '' });
  });

  it.each([
    ['Grace', 'Hopper', 'Grace Hopper'],
    ['', 'Hopper', 'Hopper'],
    [' Grace ', '', ' Grace '],
    ['', '', ''],
  ])('that others stored as %j and %j is read as %j', (firstName, lastName, name) => {
    expect(fromKeycloakNames(firstName, lastName)).toBe(name);
  });
});

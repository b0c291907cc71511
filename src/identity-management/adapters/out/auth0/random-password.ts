import { randomInt } from 'node:crypto';

/**
 * The classes of characters in a password. A password takes its characters from the four classes in turn. So no two
 * neighbouring characters are equal, which some password policies require.
 */
const CLASSES = ['abcdefghijkmnopqrstuvwxyz', 'ABCDEFGHJKLMNPQRSTUVWXYZ', '23456789', '!#$%*+-=?@_'];
const LENGTH = 48;

/**
 * Returns a random password, which nobody gets to know: 48 characters of four classes, about 190 bits of randomness.
 * All of Auth0's password policies accept it.
 */
export const randomPassword = (): string =>
  Array.from({ length: LENGTH }, (_, index) => {
    const characters = CLASSES[index % CLASSES.length] ?? '';
    return characters[randomInt(characters.length)];
  }).join('');

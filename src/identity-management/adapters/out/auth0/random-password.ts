import { randomInt } from 'node:crypto';

/** Kinds of characters, taken in turn: no two neighbouring characters are equal, as some password policies require. */
const CLASSES = ['abcdefghijkmnopqrstuvwxyz', 'ABCDEFGHJKLMNPQRSTUVWXYZ', '23456789', '!#$%*+-=?@_'];
const LENGTH = 48;

/** Returns a random password of about 190 bits, which all of Auth0's password policies accept. */
export const randomPassword = (): string =>
  Array.from({ length: LENGTH }, (_, index) => {
    const characters = CLASSES[index % CLASSES.length] ?? '';
    return characters[randomInt(characters.length)];
  }).join('');

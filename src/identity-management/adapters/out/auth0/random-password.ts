import { randomInt } from 'node:crypto';

/** In turn, so that no character stands beside itself, which some policies forbid. */
const CLASSES = ['abcdefghijkmnopqrstuvwxyz', 'ABCDEFGHJKLMNPQRSTUVWXYZ', '23456789', '!#$%*+-=?@_'];
const LENGTH = 48;

/** A password that nobody is told: 48 characters of four classes, about 190 bits of chance, which each of Auth0's policies takes. */
export const randomPassword = (): string =>
  Array.from({ length: LENGTH }, (_, index) => {
    const characters = CLASSES[index % CLASSES.length] ?? '';
    return characters[randomInt(characters.length)];
  }).join('');

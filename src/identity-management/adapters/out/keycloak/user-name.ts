import { InvalidIdentityValue } from '../../../domain/errors.js';

/** How many UTF-16 units of a user's first name Keycloak keeps at most. The same number applies to the last name. */
const MOST = 255;

export interface KeycloakNames {
  readonly firstName: string;
  readonly lastName: string;
}

/**
 * Splits a display name into Keycloak's first and last name. Normally the whole display name is the first name, so that
 * Keycloak's own `name` is the same text. If the display name is too long for the first name, its rest is the last
 * name.
 *
 * @throws InvalidIdentityValue when the display name doesn't fit in both, for example 255 characters of two UTF-16
 * units each.
 */
export function toKeycloakNames(name: string): KeycloakNames {
  if (name.length <= MOST) return { firstName: name, lastName: '' };
  const isWithinPair = (name.codePointAt(MOST - 1) ?? 0) > 0xffff;
  const end = isWithinPair ? MOST - 1 : MOST;
  const lastName = name.slice(end);
  if (lastName.length > MOST) throw new InvalidIdentityValue('name');
  return { firstName: name.slice(0, end), lastName };
}

/**
 * Joins Keycloak's first and last name to a display name, also for users created by others. A blank separates the two
 * if neither is empty, unless the first name is so long that `toKeycloakNames` may have split a display name there.
 * Empty if both are empty.
 */
export function fromKeycloakNames(firstName: string, lastName: string): string {
  if (lastName === '') return firstName;
  return firstName.length >= MOST - 1 ? firstName + lastName : `${firstName} ${lastName}`.trim();
}

import { InvalidIdentityValue } from '../../../domain/errors.js';

/** Keycloak's limit for each of the two names, in UTF-16 units. */
const MOST = 255;

export interface KeycloakNames {
  readonly firstName: string;
  readonly lastName: string;
}

/**
 * Splits a display name into Keycloak's first and last name. Only what is too long for the first name is the last name,
 * so that Keycloak's own `name` is normally the same text.
 *
 * @throws InvalidIdentityValue when the display name doesn't fit in both.
 */
export function toKeycloakNames(name: string): KeycloakNames {
  if (name.length <= MOST) return { firstName: name, lastName: '' };
  const isWithinPair = (name.codePointAt(MOST - 1) ?? 0) > 0xffff;
  const end = isWithinPair ? MOST - 1 : MOST;
  const lastName = name.slice(end);
  if (lastName.length > MOST) throw new InvalidIdentityValue('name');
  return { firstName: name.slice(0, end), lastName };
}

/** Joins Keycloak's names to a display name, with a blank unless `toKeycloakNames` may have split one there. */
export function fromKeycloakNames(firstName: string, lastName: string): string {
  if (lastName === '') return firstName;
  return firstName.length >= MOST - 1 ? firstName + lastName : `${firstName} ${lastName}`.trim();
}

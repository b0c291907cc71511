import { InvalidIdentityValue } from '../../../domain/errors.js';

/** Keycloak's limit for each of the two names, in UTF-16 units. */
const MOST = 255;

export interface KeycloakNames {
  readonly firstName: string;
  readonly lastName: string;
}

/**
 * Splits a display name into Keycloak's first and last name. The last name is only the part that doesn't fit in the
 * first name, so that the full name that Keycloak makes of both is normally the same text.
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

/** Joins Keycloak's names to a display name, with a blank unless the first name is as long as that of a split name. */
export function fromKeycloakNames(firstName: string, lastName: string): string {
  if (lastName === '') return firstName;
  return firstName.length >= MOST - 1 ? firstName + lastName : `${firstName} ${lastName}`.trim();
}

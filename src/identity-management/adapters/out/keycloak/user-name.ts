import { InvalidIdentityValue } from '../../../domain/errors.js';

/** Characters, as UTF-16 counts them, of one of Keycloak's two names. */
const MOST = 255;

export interface KeycloakNames {
  readonly firstName: string;
  readonly lastName: string;
}

/**
 * A display name in Keycloak's two: in the first one alone, so that Keycloak's own `name` is the same. What the first one
 * can't hold goes on in the last one.
 *
 * @throws InvalidIdentityValue when both together can't hold it, as 255 characters of two units each.
 */
export function toKeycloakNames(name: string): KeycloakNames {
  if (name.length <= MOST) return { firstName: name, lastName: '' };
  const isWithinPair = (name.codePointAt(MOST - 1) ?? 0) > 0xffff;
  const end = isWithinPair ? MOST - 1 : MOST;
  const lastName = name.slice(end);
  if (lastName.length > MOST) throw new InvalidIdentityValue('name');
  return { firstName: name.slice(0, end), lastName };
}

/** The display name of a user, whoever made them; empty where they have none. */
export function fromKeycloakNames(firstName: string, lastName: string): string {
  if (lastName === '') return firstName;
  return firstName.length >= MOST - 1 ? firstName + lastName : `${firstName} ${lastName}`.trim();
}

import { nameUpTo } from '../../common/text.js';
import { InvalidIdentityValue } from './errors.js';

export interface User {
  /** The user's id, `<provider_prefix>|<opaque_id>`. */
  readonly userId: string;
  /** The display name, or the e-mail if the provider has no name. */
  readonly name: string;
  /** The e-mail; empty if the provider has none. */
  readonly email: string;
}

export interface NewUser {
  /** The e-mail, in lower case. */
  readonly email: string;
  readonly name: string;
  readonly roleIds: readonly string[];
}

export const MAX_EMAIL_LENGTH = 254;
export const MAX_USER_NAME_LENGTH = 255;

const USER_NAME = nameUpTo(MAX_USER_NAME_LENGTH);
const EMAIL = nameUpTo(MAX_EMAIL_LENGTH);

/**
 * Whether a value is a text of 1 to 254 code points, well-formed, not blank and without control characters. The form of
 * an e-mail address isn't checked.
 */
export const isEmailText = (value: unknown): value is string => typeof value === 'string' && EMAIL.test(value);

/** @throws InvalidIdentityValue when the user's display name is invalid. */
export function assertUserName(name: string): void {
  if (!USER_NAME.test(name)) throw new InvalidIdentityValue('name');
}

/**
 * Normalizes and validates a user to be created. The caller checks that the e-mail has the form of an e-mail address.
 *
 * @throws InvalidIdentityValue when the e-mail or the name is invalid.
 */
export function newUser(email: string, name: string | undefined, roleIds: readonly string[]): NewUser {
  // JavaScript lowers a capital sigma to σ or ς, depending on the letters around it. One e-mail must have one form.
  const lowerCase = email.toLowerCase().replaceAll('ς', 'σ');
  if (!isEmailText(lowerCase)) throw new InvalidIdentityValue('email');
  if (name !== undefined) assertUserName(name);
  return { email: lowerCase, name: name ?? lowerCase, roleIds: [...new Set(roleIds)] };
}

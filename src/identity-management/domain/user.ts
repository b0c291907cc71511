import { isNameUpTo } from '../../common/text.js';
import { InvalidIdentityValue } from './errors.js';

export interface User {
  /** `<provider_prefix>|<opaque_id>`, given by the provider. */
  readonly userId: string;
  /** The e-mail where the provider has no name. */
  readonly name: string;
  /** Empty where the provider has none. */
  readonly email: string;
}

export interface NewUser {
  /** In lower case. */
  readonly email: string;
  readonly name: string;
  /** Each once, in the order given. */
  readonly roleIds: readonly string[];
}

export const MAX_EMAIL_LENGTH = 254;
export const MAX_USER_NAME_LENGTH = 255;

export const isUserName = isNameUpTo(MAX_USER_NAME_LENGTH);

/** 1-254 code points, not blank, no control character; not yet an e-mail. */
export const isEmailText = isNameUpTo(MAX_EMAIL_LENGTH);

/** @throws InvalidIdentityValue when the name breaks its rule. */
export function assertUserName(name: string): void {
  if (!isUserName(name)) throw new InvalidIdentityValue('name');
}

/**
 * A user that may be created: the e-mail in lower case, the name the e-mail where none is given, repeated roles once.
 * That the e-mail has an e-mail's form is the caller's to check.
 *
 * @throws InvalidIdentityValue when a value breaks its rule.
 */
export function newUser(email: string, name: string | undefined, roleIds: readonly string[]): NewUser {
  // A sigma has two small letters, and which one is a matter of what follows.
  const lowerCase = email.toLowerCase().replaceAll('ς', 'σ');
  if (!isEmailText(lowerCase)) throw new InvalidIdentityValue('email');
  if (name !== undefined) assertUserName(name);
  return { email: lowerCase, name: name ?? lowerCase, roleIds: [...new Set(roleIds)] };
}

import { nameUpTo } from '../../common/text.js';
import { InvalidIdentityValue } from './errors.js';

export interface Role {
  readonly roleId: string;
  readonly name: string;
}

export interface NewRole {
  readonly name: string;
  readonly permissions: readonly string[];
}

export const MAX_ROLE_NAME_LENGTH = 128;
export const MAX_PERMISSIONS = 256;
export const MAX_PERMISSION_LENGTH = 255;
/** The form of a permission, `<action>:<scope>`. It is compared character by character; `*` has no special meaning. */
export const PERMISSION_PATTERN = /^[A-Za-z0-9_.*-]+:[A-Za-z0-9_./:*-]+$/;

const ROLE_NAME = nameUpTo(MAX_ROLE_NAME_LENGTH);

const isPermission = (value: unknown): value is string =>
  typeof value === 'string' && value.length <= MAX_PERMISSION_LENGTH && PERMISSION_PATTERN.test(value);

/**
 * Validates a role to be created. A repeated permission counts once.
 *
 * @throws InvalidIdentityValue when the name or a permission is invalid, or there aren't 1 to 256 distinct permissions.
 */
export function newRole(name: string, permissions: readonly string[]): NewRole {
  const distinct = [...new Set(permissions)];
  if (!ROLE_NAME.test(name)) throw new InvalidIdentityValue('role name');
  if (distinct.length === 0 || distinct.length > MAX_PERMISSIONS || !distinct.every(isPermission)) {
    throw new InvalidIdentityValue('permissions');
  }
  return { name, permissions: distinct };
}

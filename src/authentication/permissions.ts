/** The permissions that the service's operations require. */
export const PERMISSIONS = [
  'create:roles',
  'assign:roles',
  'read:roles',
  'create:users',
  'update:users',
  'read:users',
  'upload:historical',
  'upload:nowcast',
  'read:uploads',
  'delete:uploads',
] as const;

export type ServicePermission = (typeof PERMISSIONS)[number];

/**
 * A permission of the service, or a permission that a team defines for its own operations, in the form
 * `<action>:<scope>`.
 */
export type Permission = ServicePermission | `${string}:${string}`;

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

/** A permission of the service, or one that a team defines for its own operations: `<action>:<scope>`. */
export type Permission = ServicePermission | `${string}:${string}`;

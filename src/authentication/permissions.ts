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

export type Permission = (typeof PERMISSIONS)[number];

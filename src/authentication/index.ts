export { type AccessToken, AccessTokenVerifier } from './access-token.js';
export { AuthenticationModule } from './authentication.module.js';
export type { AuthenticationOptions } from './authentication.options.js';
export type { KeySetSource } from './key-set-source.js';
export type { KeySetTimes } from './key-set.js';
export { accessTokenOf, assertPermission, PermissionGuard, RequirePermission } from './permission.guard.js';
export { type Permission, PERMISSIONS, type ServicePermission } from './permissions.js';

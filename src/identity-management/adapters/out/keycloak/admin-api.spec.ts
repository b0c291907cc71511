import { expect, it } from 'vitest';
import { ProviderError, RoleNotFound, UserNotFound } from '../../../domain/errors.js';
import { notFound } from './admin-api.js';

it.each([
  [404, 'User not found', UserNotFound],
  [404, 'Role not found', RoleNotFound],
  [404, 'Could not find role', RoleNotFound],
  [404, 'Realm not found.', ProviderError],
  [500, 'User not found', ProviderError],
])('an answer with status %i and the error "%s" is reported as %o', (status, error, expected) => {
  expect(notFound({ label: 'Keycloak answers GET /', status, location: '', body: { error } })).toBeInstanceOf(expected);
});

import { readFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';

/**
 * What each entry point of the package exports, except types. All of it is public (docs/versions.md): users need it,
 * and not only the tests of this repository.
 */
const EXPORTS: Readonly<Record<string, readonly string[]>> = {
  '.': [
    ...['IngestionModule', 'IdentityManagementModule', 'AuthenticationModule', 'HttpModule', 'EmbeddedIdentityProviderModule'],
    ...['PermissionGuard', 'RequirePermission', 'PERMISSIONS', 'accessTokenOf', 'assertPermission', 'ServiceExceptionFilter'],
    ...['FileStorage', 'StoredUploads', 'EventOutbox', 'UploadEvents', 'IdentityProvider', 'AccessTokenVerifier', 'Bucket'],
    ...['LocalDiskFileStorage', 'ObjectStorageFileStorage', 'EmbeddedIdentityProvider', 'KeycloakIdentityProvider', 'Auth0IdentityProvider'],
    ...['ServiceError', 'DeliveryError', 'ObjectExistsError', 'MissingRightError', 'missingRight', 'significantOffset', 'MAX_EVENTS_BYTES'],
    ...['IdentityRefusal', 'InvalidIdentityValue', 'ProviderError', 'ProviderMisconfigured', 'ProviderUnavailable'],
    ...['RoleAlreadyExists', 'RoleNotFound', 'UserAlreadyExists', 'UserNotFound'],
    ...['contentPath', 'segmentDirectory', 'indexLine', 'parseIndexLine', 'receiptOf', 'idempotencyScope', 'requestIdentity'],
  ],
  './app': ['createApp', 'serve', 'EnvironmentError'],
  './client': ['LoadDataClient', 'LoadDataError', 'DigestMismatchError'],
  './testing': [
    ...['InMemoryBucket', 'InMemoryEventOutbox', 'InMemoryFileStorage', 'InMemoryIdentityProvider', 'InMemoryUploadEvents', 'BucketView'],
    ...['anUploadDraft', 'anUploadEvent', 'aRemovalEvent', 'someUploadEvents', 'TestIssuer', 'jwkOf', 'rsaKey', 'signToken'],
    ...['Auth0StandIn', 'startAuth0StandIn', 'SERVICE_SCOPES', 'HTML', 'TOO_MANY_REQUESTS'],
  ],
  './testing/contracts': ['bucketContract', 'eventOutboxContract', 'fileStorageContract', 'identityProviderContract', 'storedUploadsContract', 'uploadEventsContract', 'PAGE_SIZE'],
};

describe('the entry points of the package', () => {
  it.each(Object.entries(EXPORTS))('load-data-service%s exports what is public, and nothing else', async (entry, names) => {
    const { exports } = JSON.parse(await readFile('package.json', 'utf8')) as { exports: Record<string, { default: string }> };
    expect(Object.keys(exports)).toEqual(Object.keys(EXPORTS));
    const source = (exports[entry]?.default ?? '').replace('./dist', '../../src');
    const module = (await import(/* @vite-ignore */ source)) as object;
    expect(Object.keys(module).toSorted()).toEqual(names.toSorted());
  });
});

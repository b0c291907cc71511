// The package's public API: feature modules, ports, adapters, and building blocks for further adapters.
export { AccessTokenVerifier, type AccessToken } from './authentication/access-token.js';
export * from './authentication/index.js';
export { ServiceError, type ErrorKind, type ServiceErrorOptions } from './common/service-error.js';
export type { ProviderDefinition } from './common/provider-definition.js';
export { HttpModule } from './http/http.module.js';
export { ServiceExceptionFilter } from './http/service-exception.filter.js';
export { LocalDiskFileStorage, type LocalDiskOptions } from './ingestion/adapters/out/local-disk/local-disk.file-storage.adapter.js';
export { Bucket, type ListedObject, missingRight, MissingRightError, ObjectExistsError, type ReadObject, significantOffset } from './ingestion/adapters/out/object-storage/bucket.js';
export { ObjectStorageFileStorage, type ObjectStorageOptions } from './ingestion/adapters/out/object-storage/object-storage.file-storage.adapter.js';
export { EventOutbox, MAX_EVENTS_BYTES, type OutboxBatch, type OutboxEvent, type RemovedEvent, type StoredEvent } from './ingestion/application/ports/event-outbox.port.js';
export { FileStorage, receiptOf, type StoredContent, type UploadDraft, type UploadReceipt } from './ingestion/application/ports/file-storage.port.js';
export {
  type ByteRange,
  type CustomerAccess,
  type LineMemory,
  type RemovalOptions,
  type RemovalProgress,
  StoredUploads,
  type UploadFilter,
  type UploadPage,
  type UploadPosition,
} from './ingestion/application/ports/stored-uploads.port.js';
export { DeliveryError, type ToldRemoval, type ToldUpload, type UploadEvent, UploadEvents } from './ingestion/application/ports/upload-events.port.js';
export type { StorageLogger } from './ingestion/application/storage-logger.js';
export { idempotencyScope, requestIdentity } from './ingestion/domain/idempotency.js';
export { contentPath, indexLine, parseIndexLine, segmentDirectory } from './ingestion/domain/layout.js';
export type { Upload, UploadContent, UploadKind } from './ingestion/domain/upload.js';
export { IngestionModule } from './ingestion/ingestion.module.js';
export type { IngestionAdapters, IngestionOptions } from './ingestion/ingestion.options.js';
export { IdentityProvider, type ProviderCallOptions } from './identity-management/application/ports/identity-provider.port.js';
export * from './identity-management/domain/errors.js';
export type { NewRole, Role } from './identity-management/domain/role.js';
export type { NewUser, User } from './identity-management/domain/user.js';
export { Auth0IdentityProvider, type Auth0Options } from './identity-management/adapters/out/auth0/auth0.identity-provider.adapter.js';
export { EmbeddedIdentityProvider } from './identity-management/adapters/out/embedded/embedded.identity-provider.adapter.js';
export { EmbeddedIdentityProviderModule } from './identity-management/adapters/out/embedded/embedded-identity-provider.module.js';
export { KeycloakIdentityProvider, type KeycloakOptions } from './identity-management/adapters/out/keycloak/keycloak.identity-provider.adapter.js';
export { IdentityManagementModule } from './identity-management/identity-management.module.js';
export type { IdentityManagementAdapters, IdentityManagementOptions } from './identity-management/identity-management.options.js';

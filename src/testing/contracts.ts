// The test suites for adapters. These suites need Vitest.
export { bucketContract, type BucketContractSubject, PAGE_SIZE } from './bucket.contract.js';
export { eventOutboxContract } from './event-outbox.contract.js';
export { fileStorageContract, type FileStorageContractSubject } from './file-storage.contract.js';
export { identityProviderContract, type IdentityProviderSetting } from './identity-provider.contract.js';
export { storedUploadsContract } from './stored-uploads.contract.js';
export { uploadEventsContract, type UploadEventsContractSubject } from './upload-events.contract.js';

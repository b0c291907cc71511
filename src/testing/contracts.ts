// The test suites for adapters of the service's ports. They need a test runner such as Vitest, Jest or node:test.
export { bucketContract, type BucketContractSubject, type BucketRight, PAGE_SIZE } from './bucket.contract.js';
export { eventOutboxContract } from './event-outbox.contract.js';
export { fileStorageContract, type FileStorageContractSubject } from './file-storage.contract.js';
export { identityProviderContract } from './identity-provider.contract.js';
export type { IdentityProviderSetting } from './identity-provider.subject.js';
export { storedUploadsContract } from './stored-uploads.contract.js';
export type { TestRunner } from './test-runner.js';
export { uploadEventsContract, type UploadEventsContractSubject } from './upload-events.contract.js';

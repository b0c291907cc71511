// The test suites for adapters. These suites need Vitest.
export { bucketContract, type BucketContractSubject } from './bucket.contract.js';
export { fileStorageContract, type FileStorageContractSubject } from './file-storage.contract.js';
export { identityProviderContract, type IdentityProviderSetting } from './identity-provider.contract.js';
export { storedUploadsContract } from './stored-uploads.contract.js';

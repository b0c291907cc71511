// Fakes and helpers for the service's tests, and for the tests of a team that writes its own adapters. They need no
// test runner.
export * from './auth0/index.js';
export { BucketView } from './bucket.view.js';
export { InMemoryBucket } from './in-memory.bucket.js';
export { InMemoryEventOutbox } from './in-memory.event-outbox.js';
export { InMemoryFileStorage } from './in-memory.file-storage.js';
export { InMemoryIdentityProvider } from './in-memory.identity-provider.js';
export { InMemoryUploadEvents } from './in-memory.upload-events.js';
export { jwkOf, rsaKey, signToken, TestIssuer } from './test-issuer.js';
export { anUploadDraft } from './upload-draft.builder.js';
export { anUploadEvent, aRemovalEvent, someUploadEvents } from './upload-events.builder.js';

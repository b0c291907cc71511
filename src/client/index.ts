// The public API of `load-data-service/client`, which runs in Node, Deno, Bun and browsers.
export type { components } from './api-types.js';
export { DigestMismatchError, LoadDataError } from './errors.js';
export type { FileSource } from './file-source.js';
export { type ClientOptions, LoadDataClient, type RequestOptions, type UploadListQuery, type UploadReceipt, type UploadRequest } from './load-data-client.js';
export type { Progress } from './transport.js';

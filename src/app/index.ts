// The public API of `load-data-service/app`: creates and serves the whole service, in which the caller may replace
// parts.
export { type AppOptions, createApp } from './create-app.js';
export type { AppParts } from './app.module.js';
export type { Replacement } from './replacement.js';
export { serve } from './serve.js';
export type { AdapterContext, FileStorageAdapter, IdentityProviderAdapter, VariablesSchema } from './team-adapter.js';
export { EnvironmentError } from '../configuration/variables.js';

// The public API of `load-data-service/app`.
export { type AppOptions, createApp } from './create-app.js';
export type { AppParts } from './app.module.js';
export type { Replacement } from './replacement.js';
export { serve } from './serve.js';
export type { AdapterContext, FileStorageAdapter, IdentityProviderAdapter, VariablesSchema } from './team-adapter.js';
export { EnvironmentError } from '../configuration/variables.js';

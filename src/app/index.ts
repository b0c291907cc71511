// The public API of `load-data-service/app`: the whole service, with parts of it replaced.
export { type AppOptions, createApp } from './create-app.js';
export type { AppParts } from './app.module.js';
export type { Replacement } from './replacement.js';
export { serve } from './serve.js';
export { EnvironmentError } from '../configuration/variables.js';

/**
 * Says which code calls `onApplicationShutdown` of a measured adapter: the decorator that measures the adapter
 * (`owned`), or Nest, because the adapter itself is a provider of Nest (`provider`).
 */
export type Ownership = 'owned' | 'provider';

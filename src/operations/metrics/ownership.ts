/**
 * Says which code calls the lifecycle hooks of a measured adapter: the decorator that measures it (`owned`), or Nest,
 * because the adapter itself is a provider of Nest (`provider`).
 */
export type Ownership = 'owned' | 'provider';

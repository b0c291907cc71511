/**
 * The caller of the lifecycle hooks of a measured adapter: its decorator (`owned`), or Nest, because the adapter is a
 * provider itself (`provider`).
 */
export type Ownership = 'owned' | 'provider';

/**
 * Whether the measuring decorator (`owned`) or Nest (`provider`) calls `onApplicationShutdown` of the measured adapter.
 */
export type Ownership = 'owned' | 'provider';

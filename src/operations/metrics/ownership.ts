/** Whether the measuring decorator (`owned`) or Nest (`provider`) calls the adapter's `onApplicationShutdown`. */
export type Ownership = 'owned' | 'provider';

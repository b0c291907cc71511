import type { ClassProvider, FactoryProvider, ValueProvider } from '@nestjs/common';

/** How Nest creates an adapter: a provider definition without its token, which is the port. */
export type ProviderDefinition<Port> =
  | Omit<ClassProvider<Port>, 'provide'>
  | Omit<FactoryProvider<Port>, 'provide'>
  | Omit<ValueProvider<Port>, 'provide'>;

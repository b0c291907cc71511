import type { ClassProvider, FactoryProvider, ValueProvider } from '@nestjs/common';

/** How the container makes an adapter: a Nest provider, whose token is the port. */
export type ProviderDefinition<Port> =
  | Omit<ClassProvider<Port>, 'provide'>
  | Omit<FactoryProvider<Port>, 'provide'>
  | Omit<ValueProvider<Port>, 'provide'>;

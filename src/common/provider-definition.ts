import type { ClassProvider, FactoryProvider, ValueProvider } from '@nestjs/common';

/** A Nest provider definition of an adapter, without the token (`provide`), which is the adapter's port. */
export type ProviderDefinition<Port> =
  | Omit<ClassProvider<Port>, 'provide'>
  | Omit<FactoryProvider<Port>, 'provide'>
  | Omit<ValueProvider<Port>, 'provide'>;

import { type DynamicModule, type InjectionToken, Module, type ModuleMetadata } from '@nestjs/common';
import type { ProviderDefinition } from '../common/provider-definition.js';

/**
 * An adapter that replaces the one that the environment selects: an object that implements the port, or a definition
 * from which Nest creates one (`useClass`, `useFactory` or `useValue`).
 */
export type Replacement<Port> = Port | ProviderDefinition<Port>;

export type Imports = NonNullable<ModuleMetadata['imports']>;

/**
 * A replacement for an adapter, provided by a Nest module of its own under `token`. So Nest injects what the
 * replacement needs, and calls its lifecycle hooks.
 */
export interface ProvidedReplacement {
  readonly module: DynamicModule;
  readonly token: InjectionToken;
}

@Module({})
class ReplacementModule {}

/**
 * Wraps a replacement for an adapter in a Nest module of its own.
 *
 * @param imports the modules whose exports the replacement may inject.
 */
export function provideReplacement<Port extends object>(replacement: Replacement<Port>, imports: Imports): ProvidedReplacement {
  const token = Symbol('replacement');
  const definition = isDefinition(replacement) ? replacement : { useValue: replacement };
  return { token, module: { module: ReplacementModule, imports, providers: [{ provide: token, ...definition }], exports: [token] } };
}

const isDefinition = <Port extends object>(replacement: Replacement<Port>): replacement is ProviderDefinition<Port> =>
  'useClass' in replacement || 'useFactory' in replacement || 'useValue' in replacement;

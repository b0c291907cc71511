import { type DynamicModule, type InjectionToken, Module, type ModuleMetadata } from '@nestjs/common';
import type { ProviderDefinition } from '../common/provider-definition.js';

/** An adapter that implements the port, or a provider definition from which Nest creates one. */
export type Replacement<Port> = Port | ProviderDefinition<Port>;

export type Imports = NonNullable<ModuleMetadata['imports']>;

export interface ProvidedReplacement {
  readonly module: DynamicModule;
  readonly token: InjectionToken;
}

@Module({})
class ReplacementModule {}

/**
 * Wraps a replacement in a Nest module, so that Nest injects its dependencies and calls its lifecycle hooks.
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

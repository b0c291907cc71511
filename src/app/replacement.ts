import { type DynamicModule, type InjectionToken, Module, type ModuleMetadata } from '@nestjs/common';
import type { ProviderDefinition } from '../common/provider-definition.js';

/** An adapter that replaces the one of the environment: an instance of the port, or how Nest creates one. */
export type Replacement<Port> = Port | ProviderDefinition<Port>;

export type Imports = NonNullable<ModuleMetadata['imports']>;

/**
 * A replacement as a Nest provider in a module of its own, so that Nest injects what it needs and calls its lifecycle
 * hooks.
 */
export interface ProvidedReplacement {
  readonly module: DynamicModule;
  readonly token: InjectionToken;
}

@Module({})
class ReplacementModule {}

/** @param imports the modules whose exports the replacement may inject. */
export function provideReplacement<Port extends object>(replacement: Replacement<Port>, imports: Imports): ProvidedReplacement {
  const token = Symbol('replacement');
  const definition = isDefinition(replacement) ? replacement : { useValue: replacement };
  return { token, module: { module: ReplacementModule, imports, providers: [{ provide: token, ...definition }], exports: [token] } };
}

const isDefinition = <Port extends object>(replacement: Replacement<Port>): replacement is ProviderDefinition<Port> =>
  'useClass' in replacement || 'useFactory' in replacement || 'useValue' in replacement;

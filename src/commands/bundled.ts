import { namesAdapterModule } from '../configuration/adapter-module.js';
import { EnvironmentError, readVariables } from '../configuration/variables.js';
import type * as commands from './dispatch.js';

/**
 * The entry point of the bundle (bundle.mjs): runs a command as `dispatch` of dispatch.ts does.
 *
 * If a variable names a team's module, the command runs from the compiled modules, which the team's module may import.
 * With the bundle's own classes, `instanceof` would fail for an error that the team's module throws.
 */
export async function dispatch(): Promise<void> {
  const compiled = new URL('./dispatch.js', import.meta.url).href;
  const { dispatch: run } = namesModule() ? ((await import(compiled)) as typeof commands) : await import('./dispatch.js');
  await run();
}

function namesModule(): boolean {
  try {
    return namesAdapterModule(readVariables());
  } catch (error) {
    // The variables can't be read. The command reads them again, and reports the problem.
    if (error instanceof EnvironmentError) return false;
    throw error;
  }
}

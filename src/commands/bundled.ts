import { namesAdapterModule } from '../configuration/adapter-module.js';
import { EnvironmentError, readVariables } from '../configuration/variables.js';
import type * as commands from './dispatch.js';

/**
 * Runs a command as `dispatch` does: the entry point of the bundle (bundle.mjs).
 *
 * A team's module imports the compiled package. Where a variable names such a module, the command runs from the compiled
 * modules too, because the bundle has classes of its own: `instanceof` would fail for an error that the team's module throws.
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
    // The command reads the variables too, and reports the problem.
    if (error instanceof EnvironmentError) return false;
    throw error;
  }
}

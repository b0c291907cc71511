const isInstalled = /[/\\]node_modules[/\\]/.test(import.meta.filename);

/**
 * The command line with which a person calls a command of the service: with npm in a clone of the repository, and with
 * npx where the package is installed.
 *
 * @param name the name of the command. It must be the same for npm (a script) and npx.
 */
export function ownCommand(name: string, ...parameters: readonly string[]): string {
  if (isInstalled) return ['npx load-data-service', name, ...parameters].join(' ');
  return ['npm run --silent', name, ...(parameters.length > 0 ? ['--'] : []), ...parameters].join(' ');
}

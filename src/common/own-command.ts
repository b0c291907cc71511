const isInstalled = /[/\\]node_modules[/\\]/.test(import.meta.filename);

/**
 * The command line of a command of the service: with npm in a clone of the repository, with npx where it is installed.
 *
 * @param name the command's name, which must be the same for npm (a script) and npx.
 */
export function ownCommand(name: string, ...parameters: readonly string[]): string {
  if (isInstalled) return ['npx load-data-service', name, ...parameters].join(' ');
  return ['npm run --silent', name, ...(parameters.length > 0 ? ['--'] : []), ...parameters].join(' ');
}

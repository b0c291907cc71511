const isInstalled = /[/\\]node_modules[/\\]/.test(import.meta.filename);

/**
 * How a person calls a command of the service: by npm in a clone, and by npx where the package is installed.
 *
 * @param name the name of the command, which npm and npx must have in common.
 */
export function ownCommand(name: string, ...parameters: readonly string[]): string {
  if (isInstalled) return ['npx load-data-service', name, ...parameters].join(' ');
  return ['npm run --silent', name, ...(parameters.length > 0 ? ['--'] : []), ...parameters].join(' ');
}

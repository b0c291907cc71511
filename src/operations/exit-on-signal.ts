export const SIGNALS = ['SIGTERM', 'SIGINT'] as const;

/**
 * Makes the process exit with 0 at once on SIGTERM and SIGINT, until `shutDownOnSignal` is called. Without a handler,
 * the system ignores both signals if the service is the first process of a container. This function is in a module of
 * its own, so that it can be called before the application's modules are loaded.
 */
export function exitOnSignal(): void {
  for (const signal of SIGNALS) process.on(signal, exit);
}

export const exit = (): never => process.exit(0);

import { DataDirectoryError } from '../common/data-directory/data-directory-error.js';
import { DataDirectoryInUseError } from '../common/data-directory/data-directory-lock.js';
import { explainFailure } from '../common/data-directory/explain-failure.js';
import { isCoded } from '../common/error-code.js';
import { ServiceError } from '../common/service-error.js';
import { oneLine } from '../common/text.js';
import { EnvironmentError } from '../configuration/variables.js';

/** Explains to the user why the service refused to start. An unknown error is explained by its stack. */
export function explainRefusal(error: unknown, dataDirectory: string): string {
  if (error instanceof EnvironmentError) return error.problems.join('\n');
  if (error instanceof DataDirectoryInUseError) return error.message;
  if (error instanceof DataDirectoryError) return oneLine(`DATA_DIR: ${error.message}`);
  if (error instanceof ServiceError && isCoded(error.cause)) return oneLine(`DATA_DIR: ${error.message} ${explainFailure(error.cause, dataDirectory)}`);
  // The codes of Node's own errors begin with ERR_, for example when a package isn't installed. An error with any other
  // code is reported as a problem of DATA_DIR, unless it is about HOST or PORT.
  if (!isCoded(error) || error.code.startsWith('ERR_')) return error instanceof Error ? (error.stack ?? error.message) : String(error);
  const syscall = 'syscall' in error ? error.syscall : undefined;
  if (syscall === 'getaddrinfo') return oneLine(`HOST: ${error.message}: set HOST to an address or a name of this machine`);
  if (syscall === 'listen') return oneLine(`HOST, PORT: ${error.message}${adviceOnListening(error.code)}`);
  return oneLine(`DATA_DIR: ${explainFailure(error, dataDirectory)}`);
}

function adviceOnListening(code: string): string {
  switch (code) {
    case 'EADDRINUSE':
      return ': end the program that listens there, or set PORT to another port (0 takes a free one)';
    case 'EADDRNOTAVAIL':
      return ': set HOST to an address of this machine';
    case 'EACCES':
      return ': set PORT to 1024 or higher, or let this user open lower ports';
    default:
      return '';
  }
}

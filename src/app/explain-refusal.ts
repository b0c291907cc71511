import { DataDirectoryError } from '../common/data-directory/data-directory-error.js';
import { DataDirectoryInUseError } from '../common/data-directory/data-directory-lock.js';
import { type CodedError, explainFailure } from '../common/data-directory/explain-failure.js';
import { ServiceError } from '../common/service-error.js';
import { EnvironmentError } from '../configuration/variables.js';

/**
 * Explains why the service refuses to start. Each configuration problem, an unusable DATA_DIR and an unusable HOST or
 * PORT get one line each. Any other error is a bug and is returned with its stack.
 */
export function explainRefusal(error: unknown, dataDirectory: string): string {
  if (error instanceof EnvironmentError) return error.problems.join('\n');
  if (error instanceof DataDirectoryInUseError) return error.message;
  if (error instanceof DataDirectoryError) return oneLine(`DATA_DIR: ${error.message}`);
  if (error instanceof ServiceError && isCoded(error.cause)) return oneLine(`DATA_DIR: ${error.message} ${explainFailure(error.cause, dataDirectory)}`);
  // Node's own error codes begin with ERR_, such as the code for a package that isn't installed.
  if (!isCoded(error) || error.code.startsWith('ERR_')) return error instanceof Error ? (error.stack ?? error.message) : String(error);
  if ('syscall' in error && error.syscall === 'listen') return oneLine(`HOST, PORT: ${error.message}`);
  return oneLine(`DATA_DIR: ${explainFailure(error, dataDirectory)}`);
}

const isCoded = (error: unknown): error is CodedError => error instanceof Error && 'code' in error && typeof error.code === 'string';

const oneLine = (text: string): string => text.replaceAll(/\s+/g, ' ');

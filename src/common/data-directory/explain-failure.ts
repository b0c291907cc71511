import { lstatSync } from 'node:fs';
import { join, relative, resolve, sep } from 'node:path';
import { type CodedError, hasCode } from '../error-code.js';
import { statUnlessAbsent } from './file-identity.js';

/** Explains an error in DATA_DIR: the path, the problem, and the remedy if one is known. */
export function explainFailure(error: CodedError, dataDirectory: string): string {
  const path = typeof error.path === 'string' ? resolve(error.path) : undefined;
  const isBelow = path?.startsWith(`${resolve(dataDirectory)}${sep}`) === true;
  const obstacle = isBelow && ['ENOENT', 'ENOTDIR', 'ELOOP'].includes(error.code) ? obstacleOn(path, dataDirectory) : undefined;
  if (obstacle !== undefined) return `${obstacle}: move it away, or put the right one back`;
  const where = path === undefined && !error.message.includes(dataDirectory) ? `, in ${dataDirectory}` : '';
  return `${error.message}${where}${adviceFor(error.code)}`;
}

function obstacleOn(path: string, directory: string): string | undefined {
  let at = resolve(directory);
  for (const name of relative(at, path).split(sep)) {
    at = join(at, name);
    if (!lstatSync(at, { throwIfNoEntry: false })) return undefined;
    try {
      const stats = statUnlessAbsent(at);
      if (!stats) return `${at} is a symbolic link to nothing`;
      if (at !== path && !stats.isDirectory()) return `${at} is not a directory`;
    } catch (error) {
      if (hasCode(error, 'ELOOP')) return `${at} is a symbolic link that leads in a circle`;
      throw error;
    }
  }
  return undefined;
}

function adviceFor(code: string): string {
  switch (code) {
    case 'EACCES':
    case 'EPERM':
      return ': let the user that runs the service read and write there, or set DATA_DIR to another directory';
    case 'EROFS':
    case 'SQLITE_READONLY':
      return ': mount it for writing, or set DATA_DIR to a directory that can be written';
    case 'ENOSPC':
    case 'EDQUOT':
    case 'SQLITE_FULL':
      return ': free some space there';
    case 'SQLITE_BUSY':
      return ': end the other program that uses it';
    case 'EMFILE':
      return ': let the service open more files (`ulimit -n`)';
    case 'EISDIR':
    case 'ENOTEMPTY':
    case 'EEXIST':
      return ': move it away, or put the right one back';
    case 'ENOENT':
    case 'ENOTDIR':
    case 'ELOOP':
    case 'ENAMETOOLONG':
      return ': set DATA_DIR to a directory that can be made';
    default:
      return '';
  }
}

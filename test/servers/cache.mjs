import { homedir } from 'node:os';
import { join } from 'node:path';

/** The directory, outside the repository, of all that the tests install (XDG Base Directory Specification). */
export const CACHE = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'load-data-service');

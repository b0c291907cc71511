import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';

// Debian installs nginx and HAProxy to a directory that isn't in the PATH of every user.
const DIRECTORIES = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin'];

export const programPath = (name) => DIRECTORIES.map((directory) => join(directory, name)).find((path) => existsSync(path));

export const MISSING_PROXIES = ['nginx', 'haproxy'].filter((name) => programPath(name) === undefined);

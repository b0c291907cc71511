import { readFileSync, statSync } from 'node:fs';
import { isCoded } from '../common/error-code.js';

/** Variables that may also be given as a file: the variable with the suffix `_FILE` has the file's path. */
const SECRETS = [
  'EMBEDDED_ADMIN_SECRET',
  'KEYCLOAK_CLIENT_SECRET',
  'KEYCLOAK_ADMIN_PASSWORD',
  'AUTH0_CLIENT_SECRET',
  'AUTH0_SETUP_CLIENT_SECRET',
  'AWS_ACCESS_KEY_ID',
  'AWS_SECRET_ACCESS_KEY',
  'AWS_SESSION_TOKEN',
  'AZURE_STORAGE_CONNECTION_STRING',
  'EVENTS_WEBHOOK_URL',
  'EVENTS_WEBHOOK_SECRET',
  'OTEL_EXPORTER_OTLP_HEADERS',
  'OTEL_EXPORTER_OTLP_TRACES_HEADERS',
];
type Variables = Readonly<Record<string, string | undefined>>;

const MAX_BYTES = 64 * 1024;

const fileVariable = (secret: string): string => `${secret}_FILE`;

export const SECRET_FILE_NAMES = SECRETS.map(fileVariable);

/**
 * Replaces the path of each secret's file by the secret, under the secret's name. A secret is the only line of its
 * file.
 *
 * @param variables the variables that are set, without empty ones.
 * @returns the variables; the secrets whose files can't be used, or that are set too; and one line for each of these.
 */
export function readSecretFiles(variables: Variables): { found: Variables; failed: string[]; problems: string[] } {
  const found = Object.fromEntries(Object.entries(variables).filter(([name]) => !SECRET_FILE_NAMES.includes(name)));
  const failed: string[] = [];
  const problems: string[] = [];
  for (const secret of SECRETS) {
    const name = fileVariable(secret);
    const path = variables[name];
    if (path === undefined) continue;
    try {
      if (variables[secret] !== undefined) throw new Error(`must not be set together with ${secret}`);
      found[secret] = readSecret(path);
    } catch (error) {
      failed.push(secret);
      // The message of the file system has the path, which may be a secret that was set in place of its file's path.
      problems.push(`${name}: ${isCoded(error) ? `the file can't be read (${error.code})` : (error as Error).message}`);
    }
  }
  return { found, failed, problems };
}

function readSecret(path: string): string {
  const stats = statSync(path);
  // Only a regular file is read, because reading a FIFO could block forever.
  if (!stats.isFile() || stats.size > MAX_BYTES) throw new Error(`must be the path of a regular file of at most ${MAX_BYTES} bytes`);
  const secret = readFileSync(path, 'utf8').replace(/(?:\r?\n)+$/, '');
  if (!/^[^\0\r\n]+$/.test(secret)) throw new Error('the file must contain one line, which is the secret');
  return secret;
}

import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadSigningKeys } from '../../src/identity-management/adapters/out/embedded/signing-keys.js';

const FILE = 'identity/signing-keys.json';
let made: Promise<string> | undefined;

/**
 * Writes signing keys into a new DATA_DIR, because creating them would take the service half a second of CPU time. All
 * data directories of one test process get the same keys.
 */
export async function writeSigningKeys(dataDirectory: string): Promise<void> {
  made ??= make();
  await mkdir(join(dataDirectory, 'identity'), { recursive: true });
  await writeFile(join(dataDirectory, FILE), await made);
}

async function make(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'signing-keys-'));
  await loadSigningKeys(directory);
  const text = await readFile(join(directory, FILE), 'utf8');
  await rm(directory, { recursive: true });
  return text;
}

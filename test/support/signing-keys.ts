import type { KeyObject } from 'node:crypto';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadSigningKeys } from '../../src/identity-management/adapters/out/embedded/signing-keys.js';
import { rsaKey } from '../../src/testing/test-issuer.js';

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

const shared: KeyObject[] = [];

/** An RSA key for a test's tokens. Specs of one process share them, because making one takes 0.1 s. */
export const sharedRsaKey = (number = 0): KeyObject => (shared[number] ??= rsaKey());

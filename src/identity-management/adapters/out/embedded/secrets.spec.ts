import { execFile } from 'node:child_process';
import { createPublicKey } from 'node:crypto';
import { chmodSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { JWK } from 'jose';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { built } from '../../../../../test/support/built.js';
import { sharedRsaKey } from '../../../../../test/support/signing-keys.js';
import { ecKey, rsaKey } from '../../../../testing/test-issuer.js';
import { assertAdminSecret, loadAdminSecret, renewedAdminSecret } from './admin-secret.js';
import { privateDirectory } from './private-files.js';
import type { RenewedFile } from './renewed-file.js';
import { loadSigningKeys, renewedSigningKeys, type SigningKeys } from './signing-keys.js';

// Other processes import dist.
await built();

let directory: string;
const file = (name: string): string => join(directory, 'identity', name);
const modeOf = (path: string): number => statSync(path).mode & 0o777;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'secrets-'));
});
afterEach(() => {
  rmSync(directory, { recursive: true, force: true });
});

/**
 * Starts `count` processes at once, with a umask of 0. Each loads the signing keys and the admin secret, and prints
 * them.
 */
async function loadInProcesses(count: number): Promise<string[]> {
  const built = join(process.cwd(), 'dist/identity-management/adapters/out/embedded');
  const program = `
    const [built, directory] = process.argv.slice(1);
    const { loadSigningKeys } = await import(built + '/signing-keys.js');
    const { loadAdminSecret } = await import(built + '/admin-secret.js');
    process.umask(0);
    const [keys, secret] = await Promise.all([loadSigningKeys(directory), loadAdminSecret(directory)]);
    console.log(keys.map((key) => key.publicJwk.n).join() + ' ' + secret);`;
  const runs = Array.from({ length: count }, () =>
    promisify(execFile)(process.execPath, ['--input-type=module', '-e', program, built, directory]),
  );
  return (await Promise.all(runs)).map(({ stdout }) => stdout.trim());
}

describe('the first boot', () => {
  it('creates one key and one secret when processes start together, and nothing else', async () => {
    const seen = await loadInProcesses(2);
    expect(new Set(seen).size).toBe(1);
    expect(readdirSync(join(directory, 'identity')).sort()).toEqual(['admin-secret', 'signing-keys.json']);
    const [key] = await loadSigningKeys(directory);
    expect(seen[0]).toBe(`${key.publicJwk.n ?? ''} ${await loadAdminSecret(directory)}`);
  });

  it('creates one of each in a process that starts it twice', async () => {
    const [[one], [other]] = await Promise.all([loadSigningKeys(directory), loadSigningKeys(directory)]);
    expect(other.keyId).toBe(one.keyId);
    expect(other.publicJwk).toEqual(one.publicJwk);
    const [secret, again] = await Promise.all([loadAdminSecret(directory), loadAdminSecret(directory)]);
    expect(again).toBe(secret);
    expect(readdirSync(join(directory, 'identity')).sort()).toEqual(['admin-secret', 'signing-keys.json']);
  });

  it('lets only the owner read them, with a umask of 0 or 0777, and after their modes were widened', async () => {
    await loadInProcesses(1);
    expect(modeOf(join(directory, 'identity'))).toBe(0o700);
    expect(modeOf(file('signing-keys.json'))).toBe(0o600);
    expect(modeOf(file('admin-secret'))).toBe(0o600);
    chmodSync(file('signing-keys.json'), 0o644);
    chmodSync(file('admin-secret'), 0o644);
    await loadSigningKeys(directory);
    await loadAdminSecret(directory);
    expect(modeOf(file('signing-keys.json'))).toBe(0o600);
    expect(modeOf(file('admin-secret'))).toBe(0o600);

    rmSync(file('admin-secret'));
    const previous = process.umask(0o777);
    try {
      await loadAdminSecret(directory);
    } finally {
      process.umask(previous);
    }
    expect(modeOf(file('admin-secret'))).toBe(0o600);
  });
});

describe('the signing keys', () => {
  it('are private RSA keys of at least 2048 bits for RS256, and survive a restart', async () => {
    const [key] = await loadSigningKeys(directory);
    const [jwk] = JSON.parse(readFileSync(file('signing-keys.json'), 'utf8')) as JWK[];
    expect(jwk).toMatchObject({ kty: 'RSA', alg: 'RS256', use: 'sig', kid: key.keyId });
    expect(jwk?.d).toBeTypeOf('string');
    expect(createPublicKey(key.privateKey).asymmetricKeyDetails?.modulusLength).toBeGreaterThanOrEqual(2048);
    expect((await loadSigningKeys(directory))[0].publicJwk).toEqual(key.publicJwk);
  });

  it('are published without their private members', async () => {
    const [{ publicJwk }] = await loadSigningKeys(directory);
    expect(Object.keys(publicJwk).sort()).toEqual(['alg', 'e', 'kid', 'kty', 'n', 'use']);
  });

  it('can be several, of which the first signs', async () => {
    const [old] = await loadSigningKeys(directory);
    const keys = JSON.parse(readFileSync(file('signing-keys.json'), 'utf8')) as JWK[];
    const fresh = sharedRsaKey().export({ format: 'jwk' }) as JWK;
    writeFileSync(file('signing-keys.json'), JSON.stringify([fresh, ...keys]));
    const [first, second] = await loadSigningKeys(directory);
    expect(first.publicJwk.n).toBe(fresh.n);
    expect(first.keyId).toMatch(/^[A-Za-z0-9_-]{43}$/);
    expect(second?.publicJwk).toEqual(old.publicJwk);
  });

  it.each([
    ['no bytes', ''],
    ['half a file', '[{"kty":"RSA","n":"c2VjcmV0"'],
    ['no key', '[]'],
    ['an object', '{}'],
    ['a public key', JSON.stringify([createPublicKey(sharedRsaKey()).export({ format: 'jwk' })])],
    ['a weak key', JSON.stringify([rsaKey(1024).export({ format: 'jwk' })])],
    ['a key of another type', JSON.stringify([ecKey().export({ format: 'jwk' })])],
  ])('are rejected, with a message that shows none of them, when the file contains %s', async (_, text) => {
    writeFileSync(join(privateDirectory(directory), 'signing-keys.json'), text);
    const failure = await loadSigningKeys(directory).then(
      () => undefined,
      (error: unknown) => error as Error,
    );
    expect(failure?.message).toBe(`${file('signing-keys.json')} must be a JSON array of private RSA keys (JWK) of 2048 bits or more. Put the keys back, or remove the file to get a new one.`);
    expect(failure?.cause).toBeUndefined();
    expect(readFileSync(file('signing-keys.json'), 'utf8')).toBe(text);
  });
});

describe('the signing keys of a running service', () => {
  let warnings: string[];
  let keys: RenewedFile<SigningKeys>;
  let isAway: boolean;
  const write = (...jwks: JWK[]) => {
    writeFileSync(file('signing-keys.json.new'), JSON.stringify(jwks));
    renameSync(file('signing-keys.json.new'), file('signing-keys.json'));
  };
  const moduli = async () => (await keys.current()).map(({ publicJwk }) => publicJwk.n);
  const fresh = sharedRsaKey().export({ format: 'jwk' }) as JWK;
  let old: JWK;
  beforeEach(async () => {
    warnings = [];
    isAway = false;
    const assertAvailable = () => (isAway ? Promise.reject(new Error('away')) : Promise.resolve());
    keys = await renewedSigningKeys(directory, { assertAvailable, logger: { warn: (message: string) => warnings.push(message) } });
    [old] = JSON.parse(readFileSync(file('signing-keys.json'), 'utf8')) as [JWK];
  });

  it('are those in the file, whenever it is replaced', async () => {
    expect(await moduli()).toEqual([old.n]);
    write(fresh, old);
    expect(await moduli()).toEqual([fresh.n, old.n]);
    write(fresh);
    expect(await moduli()).toEqual([fresh.n]);
    expect(warnings).toEqual([]);
  });

  it.each<[string, () => void, RegExp]>([
    ['is damaged', () => { writeFileSync(file('signing-keys.json'), '[{"kty":"RSA","n":"c2VjcmV0"'); }, /^The signing keys from before stay in use\. \S+signing-keys\.json must be a JSON array of private RSA keys /],
    ['is gone', () => { rmSync(file('signing-keys.json')); }, /^The signing keys from before stay in use\. \S+signing-keys\.json is gone while the service runs: put it back/],
  ])('stay in use, with one warning, while the file %s', async (_, spoil, warning) => {
    spoil();
    for (let times = 0; times < 3; times++) expect(await moduli()).toEqual([old.n]);
    expect(warnings).toEqual([expect.stringMatching(warning)]);
    expect(warnings[0]).not.toContain('c2VjcmV0');
    write(fresh, old);
    expect(await moduli()).toEqual([fresh.n, old.n]);
    expect(warnings).toHaveLength(1);
  });

  it('are read again once the error of the file system that kept them from being read is over', async () => {
    renameSync(file('signing-keys.json'), file('aside'));
    symlinkSync('signing-keys.json', file('signing-keys.json'));
    for (let times = 0; times < 2; times++) expect(await moduli()).toEqual([old.n]);
    expect(warnings).toEqual([expect.stringMatching(/^The signing keys from before stay in use\. .*ELOOP/)]);
    rmSync(file('signing-keys.json'));
    write(fresh, old);
    expect(await moduli()).toEqual([fresh.n, old.n]);
  });

  it('are not those of another store at the path of a DATA_DIR that is away', async () => {
    isAway = true;
    write(fresh);
    expect(await moduli()).toEqual([old.n]);
    rmSync(join(directory, 'identity'), { recursive: true });
    expect(await moduli()).toEqual([old.n]);
    expect(readdirSync(directory)).toEqual([]);
    expect(warnings).toEqual([]);
  });

  it('create nothing while their directory is gone', async () => {
    rmSync(join(directory, 'identity'), { recursive: true });
    expect(await moduli()).toEqual([old.n]);
    expect(readdirSync(directory)).toEqual([]);
    expect(warnings).toHaveLength(1);
  });

  it('stay in use at once while the disk does not answer', async () => {
    const hanging = await renewedSigningKeys(directory, { assertAvailable: () => new Promise(() => undefined), logger: { warn: () => undefined } });
    expect((await hanging.current()).map(({ publicJwk }) => publicJwk.n)).toEqual([old.n]);
  });
});

describe('the admin secret', () => {
  it('is one line of 32 random bytes in base64url, and survives a restart', async () => {
    const secret = await loadAdminSecret(directory);
    expect(secret).toMatch(/^[A-Za-z0-9_-]{43}$/);
    expect(readFileSync(file('admin-secret'), 'utf8')).toBe(`${secret}\n`);
    expect(await loadAdminSecret(directory)).toBe(secret);
    const other = mkdtempSync(join(tmpdir(), 'secrets-'));
    expect(await loadAdminSecret(other)).not.toBe(secret);
    rmSync(other, { recursive: true });
  });

  it.each(['', '\n', 'fifteen:letters\n', 'two-lines-that-are\nboth-long-enough\n', 'with some blanks in it', 'long-enough-alone too-short', 'three-long-secrets three-long-secrets three-long-secrets', 'two-blanks-between  two-blanks-between', 'pässwort-pässwort'])('is rejected when the file contains %j', async (text) => {
    writeFileSync(join(privateDirectory(directory), 'admin-secret'), text);
    await expect(loadAdminSecret(directory)).rejects.toThrow(`${file('admin-secret')} must be one line of at least 16 visible ASCII characters`);
  });

  it.each(['', 'fifteen-letters', 'the-new-secret-1 too-short'])('that a module is given must not be %j', (secret) => {
    expect(() => { assertAdminSecret(secret); }).toThrow('The secret of the client admin must be at least 16 visible ASCII characters, or two such secrets separated by a blank.');
  });

  it.each(['own:secret%secret', 'the-new-secret-1 the-old-secret-1'])('can be written by the owner (%s)', async (text) => {
    writeFileSync(join(privateDirectory(directory), 'admin-secret'), `${text}\n`);
    expect(await loadAdminSecret(directory)).toBe(text);
  });

  it('of a running service is the one in the file, whenever it is replaced, and otherwise the one from before', async () => {
    const warnings: string[] = [];
    const secret = await renewedAdminSecret(directory, { assertAvailable: () => Promise.resolve(), logger: { warn: (message: string) => warnings.push(message) } });
    const first = await secret.current();
    for (const text of [`the-new-secret-1 ${first}`, 'the-new-secret-1']) {
      writeFileSync(file('admin-secret'), `${text}\n`);
      expect(await secret.current()).toBe(text);
    }
    writeFileSync(file('admin-secret'), 'too-short\n');
    for (let times = 0; times < 2; times++) expect(await secret.current()).toBe('the-new-secret-1');
    rmSync(file('admin-secret'));
    expect(await secret.current()).toBe('the-new-secret-1');
    expect(warnings).toEqual([
      expect.stringMatching(/^The secret of admin from before stays in use\. \S+admin-secret must be one line of .* Put the secret back\.$/),
      expect.stringMatching(/^The secret of admin from before stays in use\. \S+admin-secret is gone while the service runs: /),
    ]);
  });
});

import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

/**
 * Makes a self-signed certificate for this machine's loopback addresses, and its key, by openssl, as PEM files in a
 * directory. Each certificate has another subject, so that a client can trust several at once.
 *
 * @param {string} directory
 * @param {string} name
 * @returns {Promise<import('./self-signed.mjs').SelfSigned>}
 */
export async function selfSigned(directory, name) {
  const [certificatePath, keyPath] = [join(directory, `${name}.pem`), join(directory, `${name}.key.pem`)];
  const subject = ['-subj', `/CN=${randomUUID()}`, '-addext', 'subjectAltName=IP:127.0.0.1,IP:::1'];
  await promisify(execFile)('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2', ...subject, '-out', certificatePath, '-keyout', keyPath]);
  return { certificate: await readFile(certificatePath, 'utf8'), key: await readFile(keyPath, 'utf8'), certificatePath, keyPath };
}

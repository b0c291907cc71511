import { createHash, type Hash } from 'node:crypto';
import { ServiceError } from '../common/service-error.js';
import { trimBlanks } from '../common/text.js';

const LENGTHS = { 'sha-256': 32, 'sha-512': 64 } as const;

export type DigestAlgorithm = keyof typeof LENGTHS;

export interface ExpectedDigest {
  readonly algorithm: DigestAlgorithm;
  readonly value: Buffer;
}

// Patterns for RFC 8941: keys (3.1.2), parameters, and the bare items allowed as the values of parameters (3.3).
const KEY = '[a-z*][a-z0-9_.*-]*';
const BYTES = ':[A-Za-z0-9+/]*={0,2}:';
const TEXT = '"(?:[ !#-\\[\\]-~]|\\\\["\\\\])*"';
const TOKEN = "[A-Za-z*][:/!#$%&'*+.^_`|~0-9A-Za-z-]*";
const NUMBER = '-?(?:\\d{1,12}\\.\\d{1,3}|\\d{1,15})';
const PARAMETERS = `(?:; *${KEY}(?:=(?:${BYTES}|${TEXT}|${TOKEN}|${NUMBER}|\\?[01]))?)*`;
const MEMBER = new RegExp(`(${KEY})=(${BYTES})${PARAMETERS}`, 'y');
const SEPARATOR = /[ \t]*,[ \t]*/y;

const isKnown = (name: string): name is DigestAlgorithm => Object.hasOwn(LENGTHS, name);

const invalid = (message: string): ServiceError => new ServiceError('invalid-digest', message);

/**
 * Parses the value of a header with digests, such as Content-Digest (RFC 9530, section 2; RFC 8941). Ignores other
 * algorithms than sha-256 and sha-512. If an algorithm is repeated, its last digest counts.
 *
 * @param field the header's value as Node reports it, with repeated headers joined by commas.
 * @throws ServiceError `invalid-digest` when the value isn't a dictionary of byte sequences, a base64 text isn't
 * canonical, or a digest doesn't have its algorithm's length.
 */
export function parseDigestField(field: string | undefined): ExpectedDigest[] {
  const text = trimBlanks(field ?? '');
  const digests = new Map<DigestAlgorithm, ExpectedDigest>();
  for (let at = 0; at < text.length; ) {
    if (at > 0) at = endOfMatch(SEPARATOR, text, at)[0];
    const [end, algorithm = '', sequence = ''] = endOfMatch(MEMBER, text, at);
    at = end;
    const base64 = sequence.slice(1, -1);
    const value = Buffer.from(base64, 'base64');
    if (value.toString('base64') !== base64) throw invalid('no canonical base64');
    if (!isKnown(algorithm)) continue;
    if (value.length !== LENGTHS[algorithm]) throw invalid(`not the length of ${algorithm}`);
    digests.set(algorithm, { algorithm, value });
  }
  return [...digests.values()];
}

function endOfMatch(pattern: RegExp, text: string, at: number): [end: number, ...groups: string[]] {
  pattern.lastIndex = at;
  const match = pattern.exec(text);
  if (!match) throw invalid('no dictionary of byte sequences');
  return [pattern.lastIndex, ...match.slice(1)];
}

/**
 * Yields bytes unchanged and compares their digests with the expected ones.
 *
 * @throws ServiceError `digest-mismatch` after the last byte, when a digest differs.
 */
export async function* verified(bytes: AsyncIterable<Buffer>, expected: readonly ExpectedDigest[]): AsyncGenerator<Buffer, void, undefined> {
  const digest = new ExpectedDigests(expected);
  for await (const chunk of bytes) {
    digest.add(chunk);
    yield chunk;
  }
  digest.end();
}

/** @throws ServiceError `digest-mismatch` when one of the expected digests isn't that of the bytes. */
export function assertDigests(bytes: Uint8Array, expected: readonly ExpectedDigest[]): void {
  const digest = new ExpectedDigests(expected);
  digest.add(bytes);
  digest.end();
}

/** The value of a header with digests (RFC 9530, section 2) for a sha-256 in hex. */
export const sha256Field = (sha256: string): string => `sha-256=:${Buffer.from(sha256, 'hex').toString('base64')}:`;

class ExpectedDigests {
  private readonly hashes: readonly { readonly value: Buffer; readonly hash: Hash }[];

  constructor(expected: readonly ExpectedDigest[]) {
    this.hashes = expected.map(({ algorithm, value }) => ({ value, hash: createHash(algorithm.replace('-', '')) }));
  }

  add(chunk: Uint8Array): void {
    for (const { hash } of this.hashes) hash.update(chunk);
  }

  end(): void {
    if (!this.hashes.every(({ value, hash }) => hash.digest().equals(value))) throw new ServiceError('digest-mismatch');
  }
}

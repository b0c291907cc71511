import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { MIB } from '../../common/sizes.js';
import { isUnicodeText } from '../../common/text.js';
import { requestIdentity } from '../domain/idempotency.js';
import { encodeDescriptions, encodeIndexLine, indexLine } from '../domain/layout.js';
import type { Upload } from '../domain/upload.js';
import { decodeIndexLine, membersOf } from './line-decoding.js';
import { requestDigest } from './request-digest.js';

// Texts that resemble parts of an index line. The decoder must not mistake them for members of the line.
const tricky = fc.oneof(fc.constantFrom('"additional_data":""', '","received_at":"', '\\u0000', '"\\u0000"', '\\', '"'), fc.string({ unit: 'grapheme', minLength: 1, maxLength: 9 }));
const text = fc.tuple(fc.oneof(tricky, fc.constantFrom('😀', '\u0000', 'ä😀')), fc.integer({ min: 1, max: 120_000 })).map(([piece, length]) => piece.repeat(Math.ceil(length / piece.length)));
const UPLOAD_ID = '0198c5a0-5b1e-7c7e-8d55-0c1f5a3e7a10';
const PATH = `files/kind=historical/customer_id=c/date=2026-11-21/${UPLOAD_ID}.csv`;
const upload: fc.Arbitrary<Upload> = fc
  .record({ customerId: tricky, filename: tricky, manufacturer: tricky, additionalData: fc.oneof(fc.constant(null), tricky, text), hasFile: fc.boolean(), key: fc.option(tricky) })
  .map(({ hasFile, key, ...rest }) => ({
    ...rest,
    uploadId: UPLOAD_ID,
    kind: 'historical',
    idempotencyKey: key,
    receivedAt: new Date('2026-11-21T10:00:00.000Z'),
    content: hasFile ? { path: PATH, type: 'text/csv', size: 7, sha256: 'ab' } : null,
  }));

/** Lines as other programs write them: with blanks after the colons, and with the members in another order. */
const serialized = (line: string): string => JSON.stringify(JSON.parse(line), null, 1).replaceAll('\n', '');
const reversed = (line: string): string => JSON.stringify(Object.fromEntries(Object.entries(JSON.parse(line) as object).reverse()));

const anUpload = (additionalData: string): Upload => ({
  uploadId: UPLOAD_ID,
  kind: 'historical',
  customerId: 'c',
  filename: 'f',
  manufacturer: 'm',
  additionalData,
  idempotencyKey: 'k',
  receivedAt: new Date('2026-11-21T10:00:00.000Z'),
  content: null,
});

describe('an upload with text of any length', () => {
  it('is encoded like indexLine, and decoded from that line', async () => {
    await fc.assert(fc.asyncProperty(upload, async (given) => {
      const bytes = await encodeIndexLine(given);
      expect(bytes.equals(Buffer.from(`${indexLine(given)}\n`))).toBe(true);
      expect(await decodeIndexLine(bytes)).toEqual(given);
    }), { numRuns: 100 });
  });

  it('is decoded from a line in another form of JSON', async () => {
    await fc.assert(fc.asyncProperty(upload, fc.constantFrom(serialized, reversed), async (given, rewritten) => {
      expect(await decodeIndexLine(Buffer.from(rewritten(indexLine(given))))).toEqual(given);
    }), { numRuns: 100 });
  });

  it('gets the digest of its requestIdentity', async () => {
    await fc.assert(fc.asyncProperty(upload, async (given) => {
      expect(await requestDigest(given)).toBe(createHash('sha256').update(requestIdentity(given)).digest('base64url'));
    }), { numRuns: 100 });
  });

  it.each([
    ['ends early', (line: string) => line.slice(0, -200)],
    ['has no id', (line: string) => line.replace('"upload_id"', '"another_id"')],
    ['contains a text that is not valid JSON', (line: string) => line.replace('xx', 'x\\x')],
  ])('is not decoded from a long line that %s', async (_, change) => {
    const line = indexLine(anUpload('x'.repeat(100_000)));
    expect(await decodeIndexLine(Buffer.from(line))).toBeDefined();
    expect(await decodeIndexLine(Buffer.from(change(line)))).toBeUndefined();
  });
});

describe('work on a long text', () => {
  afterEach(() => {
    vi.restoreAllMocks();
  });

  const long = anUpload('x'.repeat(MIB));
  const line = Buffer.from(indexLine(long));
  const others = [serialized, reversed].map((rewritten) => Buffer.from(rewritten(indexLine(long)))) as [Buffer, Buffer];
  it.each<[string, () => unknown]>([
    ['encodeIndexLine', () => encodeIndexLine(long)],
    ['encodeDescriptions', () => encodeDescriptions([anUpload(''), long])],
    ['decodeIndexLine', () => decodeIndexLine(line)],
    ['decodeIndexLine of a line with blanks', () => decodeIndexLine(others[0])],
    ['decodeIndexLine of a line with another order', () => decodeIndexLine(others[1])],
    ['membersOf', () => membersOf(line, ['upload_id'])],
    ['requestDigest', () => requestDigest(long)],
    ['isUnicodeText', () => isUnicodeText(long.additionalData ?? '')],
  ])('yields to the event loop repeatedly: %s', async (_, work) => {
    // Each call of `performance.now` advances the faked clock by 1 ms, so the work must often yield to other work.
    let now = 0;
    vi.spyOn(performance, 'now').mockImplementation(() => now++);
    let isDone = false;
    let turnsOfOthers = 0;
    const otherWork = (): void => {
      if (isDone) return;
      turnsOfOthers += 1;
      setImmediate(otherWork);
    };
    setImmediate(otherWork);
    await work();
    isDone = true;
    expect(turnsOfOthers).toBeGreaterThan(10);
  });
});

import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { requestIdentity } from '../domain/idempotency.js';
import { indexLine } from '../domain/layout.js';
import type { Upload } from '../domain/upload.js';
import { decodeIndexLine, encodeIndexLine, requestDigest } from './encoded-upload.js';

// What looks like a part of a line must not be taken for one.
const tricky = fc.oneof(fc.constantFrom('"additional_data":""', '","received_at":"', '\\u0000', '"\\u0000"', '\\', '"'), fc.string({ unit: 'grapheme', minLength: 1, maxLength: 9 }));
const text = fc.tuple(fc.oneof(tricky, fc.constantFrom('😀', '\u0000', 'ä😀')), fc.integer({ min: 1, max: 120_000 })).map(([piece, length]) => piece.repeat(Math.ceil(length / piece.length)));
const upload: fc.Arbitrary<Upload> = fc
  .record({ customerId: tricky, filename: tricky, manufacturer: tricky, additionalData: fc.oneof(fc.constant(null), tricky, text), hasFile: fc.boolean(), key: fc.option(tricky) })
  .map(({ hasFile, key, ...rest }) => ({
    ...rest,
    uploadId: '0198c5a0-5b1e-7c7e-8d55-0c1f5a3e7a10',
    kind: 'historical',
    idempotencyKey: key,
    receivedAt: new Date('2026-11-21T10:00:00.000Z'),
    content: hasFile ? { path: 'files/x', type: 'text/csv', size: 7, sha256: 'ab' } : null,
  }));

describe('an upload with a text of any length', () => {
  it('has the line of indexLine, and is read from it', async () => {
    await fc.assert(fc.asyncProperty(upload, async (given) => {
      const bytes = await encodeIndexLine(given);
      expect(bytes.equals(Buffer.from(`${indexLine(given)}\n`))).toBe(true);
      expect(await decodeIndexLine(bytes)).toEqual(given);
    }), { numRuns: 100 });
  });

  it('has the digest of its requestIdentity', async () => {
    await fc.assert(fc.asyncProperty(upload, async (given) => {
      expect(await requestDigest(given)).toBe(createHash('sha256').update(requestIdentity(given)).digest('base64url'));
    }), { numRuns: 100 });
  });
});

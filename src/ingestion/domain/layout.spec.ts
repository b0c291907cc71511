import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { anyText } from '../../../test/support/any-text.js';
import { contentPath, describedUpload, encodeDescriptions, extensionOf, indexLine, segmentDirectory, utcDate } from './layout.js';
import { encodePathSegment, isCustomerId, isFilename, isManufacturer, MAX_ENCODED_CUSTOMER_ID_BYTES } from './upload.js';

const customerIds = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 128 }).filter(isCustomerId);
const filenames = fc
  .oneof(
    fc.string({ unit: 'grapheme', minLength: 1, maxLength: 255 }),
    fc.tuple(fc.string({ unit: 'grapheme' }), fc.stringMatching(/^\.[A-Za-z0-9./_-]{0,10}$/)).map((parts) => parts.join('')),
  )
  .filter(isFilename);

describe('encodePathSegment', () => {
  it.each([
    ['azAZ09-_.', 'azAZ09-_.'],
    ['.', '%2E'],
    ['..', '%2E%2E'],
    ['...', '...'],
    ['.a', '.a'],
    ['%2E', '%252E'],
    ["!'()*~", '%21%27%28%29%2A%7E'],
    ['a b/c\\d', 'a%20b%2Fc%5Cd'],
    ['Zürich', 'Z%C3%BCrich'],
    ['電', '%E9%9B%BB'],
    ['🙂', '%F0%9F%99%82'],
  ])('writes %j as %s', (text, encoded) => {
    expect(encodePathSegment(text)).toBe(encoded);
  });

  it('gives each text a unique and safe name, which decodes to the text', () => {
    fc.assert(
      fc.property(anyText(), (text) => {
        const encoded = encodePathSegment(text);
        expect(encoded).toMatch(/^(?:[A-Za-z0-9_.-]|%[0-9A-F]{2})*$/);
        expect(['.', '..']).not.toContain(encoded);
        expect(decodeURIComponent(encoded)).toBe(text);
      }),
    );
  });

  it('returns a directory name of at most 240 bytes for every customer id', () => {
    fc.assert(
      fc.property(customerIds, (customerId) => {
        const bytes = Buffer.byteLength(encodePathSegment(customerId));
        expect(bytes).toBeGreaterThan(0);
        expect(bytes).toBeLessThanOrEqual(MAX_ENCODED_CUSTOMER_ID_BYTES);
      }),
    );
  });
});

describe('extensionOf', () => {
  it.each([
    ['load.csv', '.csv'],
    ['load.CSV', '.csv'],
    ['load.tar.gz', '.gz'],
    ['.csv', '.csv'],
    ['load.a2345678', '.a2345678'],
    ['load.a23456789', ''],
    ['load', ''],
    ['load.', ''],
    ['load.c v', ''],
    ['load.csv ', ''],
    ['load.csv\n', ''],
    ['load.çsv', ''],
    ['load.c-v', ''],
    ['', ''],
  ])('returns, for %j, the extension %j', (filename, extension) => {
    expect(extensionOf(filename)).toBe(extension);
  });
});

describe('contentPath', () => {
  it('uses nothing of the filename except its extension', () => {
    const uploadId = '0197f0a0-0000-7000-8000-000000000000';
    const kinds = fc.constantFrom('historical', 'nowcast');
    const dates = fc.date({ min: new Date(0), max: new Date('9999-12-31T23:59:59.999Z'), noInvalidDate: true });
    fc.assert(
      fc.property(kinds, customerIds, filenames, dates, (kind, customerId, filename, beganAt) => {
        const path = contentPath({ kind, customerId, filename, uploadId, beganAt });
        const [root, kindPart, customerPart, datePart, name, ...more] = path.split('/');
        expect([root, kindPart, more]).toEqual(['files', `kind=${kind}`, []]);
        expect(decodeURIComponent(customerPart ?? '')).toBe(`customer_id=${customerId}`);
        expect(datePart).toBe(`date=${beganAt.toISOString().slice(0, 10)}`);
        expect(name).toMatch(/^0197f0a0-0000-7000-8000-000000000000(\.[a-z0-9]{1,8})?$/);
        expect(filename.toLowerCase().endsWith(name?.slice(uploadId.length) ?? '')).toBe(true);
      }),
    );
  });
});

describe('dates', () => {
  it.each([
    ['2025-12-31T23:59:59.999Z', '2025-12-31'],
    ['2026-01-01T00:30:00+01:00', '2025-12-31'],
    ['2025-12-31T23:30:00-01:00', '2026-01-01'],
  ])('are in UTC: %s is on %s', (time, date) => {
    expect(utcDate(new Date(time))).toBe(date);
    expect(segmentDirectory('nowcast', new Date(time))).toBe(`uploads/kind=nowcast/date=${date}`);
  });
});

describe('indexLine', () => {
  it('returns one line for any texts, from which they can be read again', () => {
    const texts = anyText();
    fc.assert(
      fc.property(texts, texts, texts, fc.option(texts), (customerId, filename, manufacturer, additionalData) => {
        const line = indexLine({
          uploadId: 'id',
          kind: 'nowcast',
          idempotencyKey: null,
          customerId,
          filename,
          manufacturer,
          additionalData,
          receivedAt: new Date(0),
          content: null,
        });
        expect(line).not.toMatch(/[\n\r]/);
        expect(JSON.parse(line)).toEqual({
          upload_id: 'id',
          kind: 'nowcast',
          customer_id: customerId,
          filename,
          manufacturer,
          additional_data: additionalData,
          received_at: '1970-01-01T00:00:00.000Z',
          content_path: null,
          content_type: null,
          content_size: null,
          content_sha256: null,
        });
      }),
    );
  });
});

it('encodes a list of uploads like JSON.stringify, also those with a long text', async () => {
  const upload = (additionalData: string | null) => ({ uploadId: 'id', kind: 'nowcast', idempotencyKey: null, customerId: 'a', filename: 'b', manufacturer: 'c', additionalData, receivedAt: new Date(0), content: null }) as const;
  const uploads = [upload('short'), upload('"long" Zürich\n'.repeat(10_000)), upload(null)];
  expect((await encodeDescriptions(uploads)).toString()).toBe(JSON.stringify(uploads.map(describedUpload)));
});

describe.each([['a customer id', isCustomerId], ['a file name', isFilename], ['a manufacturer', isManufacturer]])('%s', (_, isValid) => {
  it.each([1, null, undefined, ['a'], { a: 'a' }])('refuses %j, which is no text', (value) => {
    expect(isValid(value)).toBe(false);
  });
});

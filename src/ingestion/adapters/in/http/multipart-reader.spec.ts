import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { ServiceError } from '../../../../common/service-error.js';
import { MultipartReader } from './multipart-reader.js';

const BOUNDARY = 'a-b';
interface Part {
  name: string;
  bytes: Uint8Array;
}

const encode = (parts: readonly Part[]): Buffer =>
  Buffer.concat([
    ...parts.flatMap(({ name, bytes }) => [
      Buffer.from(`--${BOUNDARY}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n`),
      Buffer.from(bytes),
      Buffer.from('\r\n'),
    ]),
    Buffer.from(`--${BOUNDARY}--\r\n`),
  ]);

async function* inChunks(bytes: Buffer, sizes: readonly number[]): AsyncGenerator<Buffer, void, undefined> {
  for (let at = 0, index = 0; at < bytes.length; index++) {
    const size = sizes[index % sizes.length] ?? 1;
    yield await Promise.resolve(bytes.subarray(at, at + size));
    at += size;
  }
}

async function read(bytes: Buffer, sizes: readonly number[]): Promise<Part[]> {
  const reader = new MultipartReader(inChunks(bytes, sizes), BOUNDARY);
  const parts: Part[] = [];
  for (let part; (part = await reader.next()); ) {
    const chunks: Buffer[] = [];
    for await (const chunk of part.bytes) chunks.push(Buffer.from(chunk));
    parts.push({ name: part.name ?? '', bytes: new Uint8Array(Buffer.concat(chunks)) });
  }
  return parts;
}

// The content of a part of a form. It has few different bytes, so that text that resembles a delimiter is frequent.
const nearlyDelimiter = fc
  .array(fc.constantFrom('\r', '\n', '-', 'a', 'b', '\r\n--a-', '\r\n--', 'x'), { maxLength: 40 })
  .map((pieces) => new Uint8Array(Buffer.from(pieces.join('').replaceAll(`\r\n--${BOUNDARY}`, ''))))
  .filter((bytes) => !Buffer.from(bytes).includes(`\r\n--${BOUNDARY}`) && !Buffer.from(bytes).toString().startsWith(`--${BOUNDARY}`));
const parts = fc.array(fc.record({ name: fc.constantFrom('file', 'x', 'additional_data'), bytes: nearlyDelimiter }), { minLength: 1 });
const sizes = fc.array(fc.integer({ min: 1, max: 30 }), { minLength: 1 });

describe('MultipartReader', () => {
  it('reads the parts of a form, in whatever chunks it arrives', async () => {
    await fc.assert(
      fc.asyncProperty(parts, sizes, async (form, chunkSizes) => {
        expect(await read(encode(form), chunkSizes)).toEqual(form);
      }),
    );
  });

  it('yields to other work between many parts that arrived in one chunk', async () => {
    const order: string[] = [];
    const form = encode(Array.from({ length: 1_000 }, () => ({ name: '', bytes: new Uint8Array() })));
    const reading = read(form, [form.length]).then(() => order.push('the form'));
    setImmediate(() => order.push('another'));
    await reading;
    expect(order).toEqual(['another', 'the form']);
  });

  it('yields to other work before it parses the long headers of a few parts', async () => {
    let now = 0;
    vi.spyOn(performance, 'now').mockImplementation(() => (now += 10));
    const header = `X: ${'x'.repeat(16_000)}\r\n`;
    const form = Buffer.from(`${`--${BOUNDARY}\r\n${header}\r\n\r\n`.repeat(3)}--${BOUNDARY}--`);
    let turnsOfOthers = 0;
    let others = setImmediate(function turnOfOthers() {
      turnsOfOthers += 1;
      others = setImmediate(turnOfOthers);
    });
    expect(await read(form, [form.length])).toHaveLength(3);
    clearImmediate(others);
    vi.restoreAllMocks();
    expect(turnsOfOthers).toBeGreaterThanOrEqual(3);
  });

  it('skips the blanks after a boundary chunk by chunk, not byte by byte', async () => {
    const form = Buffer.from(`--${BOUNDARY}${' \t'.repeat(100_000)}\r\n\r\n\r\n--${BOUNDARY}--`);
    let microtasks = 0;
    let isRead = false;
    const count = async (): Promise<void> => {
      for (; !isRead; microtasks++) await Promise.resolve();
    };
    const counting = count();
    expect(await read(form, [10_000])).toHaveLength(1);
    isRead = true;
    await counting;
    expect(microtasks).toBeLessThan(1_000);
  });

  it('rejects every form that ends before its closing delimiter', async () => {
    await fc.assert(
      fc.asyncProperty(parts, sizes, fc.double({ min: 0, max: 1, noNaN: true }), async (form, chunkSizes, share) => {
        const whole = encode(form);
        const cut = whole.subarray(0, Math.floor(share * (whole.length - '--\r\n'.length + 1)));
        await expect(read(cut, chunkSizes)).rejects.toMatchObject({ kind: 'invalid-request-body' });
      }),
    );
  });

  it('throws nothing but its own rejection, whatever arrives', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 200 }), nearlyDelimiter, sizes, async (noise, near, chunkSizes) => {
        const bytes = Buffer.concat([Buffer.from(`--${BOUNDARY}\r\n`), noise, Buffer.from(`\r\n\r\n`), near]);
        const error: unknown = await read(bytes, chunkSizes).catch((reason: unknown) => reason);
        expect(Array.isArray(error) || error instanceof ServiceError).toBe(true);
      }),
    );
  });

  it('accepts tabs, blanks, visible octets and octets above 0x7f in the value of a header, and no others', async () => {
    for (let octet = 0; octet < 256; octet++) {
      const form = Buffer.from(`--${BOUNDARY}\r\nX: a${String.fromCharCode(octet)}b\r\n\r\n\r\n--${BOUNDARY}--`, 'latin1');
      const isAccepted = await read(form, [form.length]).then(() => true, () => false);
      expect([octet, isAccepted]).toEqual([octet, octet === 0x09 || (octet >= 0x20 && octet !== 0x7f)]);
    }
  });

  it('skips the unread rest of a part', async () => {
    const reader = new MultipartReader(inChunks(encode([{ name: 'x', bytes: new Uint8Array(100) }, { name: 'file', bytes: new Uint8Array(1) }]), [7]), BOUNDARY);
    const first = await reader.next();
    await first?.bytes.next();
    expect((await reader.next())?.name).toBe('file');
    expect(await reader.next()).toBeUndefined();
  });
});

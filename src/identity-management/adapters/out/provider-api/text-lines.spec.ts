import { Readable } from 'node:stream';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { anyText } from '../../../../../test/support/any-text.js';
import { textLines } from './text-lines.js';

const linesOf = (bytes: Buffer, chunkSize: number): Promise<string[]> => {
  const chunks = Array.from({ length: Math.ceil(bytes.length / chunkSize) }, (_, index) => bytes.subarray(index * chunkSize, (index + 1) * chunkSize));
  return Readable.from(textLines(Readable.from(chunks))).toArray() as Promise<string[]>;
};

describe('the lines of a text', () => {
  it('are complete, in whatever pieces the text arrives, gzipped or not', async () => {
    const line = anyText().map((text) => text.replaceAll(/[\r\n]/g, ''));
    await fc.assert(
      fc.asyncProperty(fc.array(line), fc.integer({ min: 1, max: 40 }), async (lines, chunkSize) => {
        const text = Buffer.from(lines.map((each) => `${each}\n`).join(''));
        expect(await linesOf(text, chunkSize)).toEqual(lines);
        expect(await linesOf(gzipSync(text), chunkSize)).toEqual(lines);
      }),
    );
  });

  it.each([
    ['no newline at the end', 'a\nb', ['a', 'b']],
    ['the line ends of Windows', 'a\r\nb\r\n', ['a', 'b']],
    ['no text', '', []],
  ])('can have %s', async (_, text, lines) => {
    expect(await linesOf(Buffer.from(text), 2)).toEqual(lines);
  });

  it.each([
    ['that is cut off', gzipSync('a\n'.repeat(100)).subarray(0, 20)],
    ['with a line that never ends', Buffer.alloc(2_000_000, 'a')],
  ])('of a text %s cause an error', async (_, bytes) => {
    await expect(linesOf(bytes, 65_536)).rejects.toThrow();
  });

  it('are read no further when the reader stops', async () => {
    let read = 0;
    const source = Readable.from((function* () {
      for (; ; read++) yield Buffer.from('a\n');
    })());
    for await (const line of textLines(source)) {
      expect(line).toBe('a');
      break;
    }
    expect(source.destroyed).toBe(true);
    expect(read).toBeLessThan(1_000);
  });
});

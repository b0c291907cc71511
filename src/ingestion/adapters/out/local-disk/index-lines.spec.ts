import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { MIB } from '../../../../common/sizes.js';
import { GatedDisk } from '../../../../testing/gated-disk.js';
import { readLines, uploadIdOf } from './index-lines.js';

describe('readLines', () => {
  let directory: string;

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'index-lines-'));
  });
  afterEach(() => rm(directory, { recursive: true }));

  async function linesOf(text: string): Promise<{ lines: string[]; foreign: number }> {
    const path = join(directory, 'segment.ndjson');
    await writeFile(path, text);
    const file = await new GatedDisk().open(path);
    const lines: string[] = [];
    let foreign = 0;
    for await (const line of readLines(file, 0, await file.size(), () => (foreign += 1))) lines.push(line.toString());
    await file.close();
    return { lines, foreign };
  }

  const long = `{"x":"${'x'.repeat(20 * MIB)}"}`;

  it.each<[string, string[], string, string[], number]>([
    ['short lines', ['{"a":1}', '{"b":2}'], '', ['{"a":1}', '{"b":2}'], 0],
    ['an empty line', ['{"a":1}', '', '{"b":2}'], '', ['{"a":1}', '', '{"b":2}'], 0],
    ['no unterminated line', ['{"a":1}'], '{"b":', ['{"a":1}'], 0],
    ['a line of exactly one chunk', [`{${'x'.repeat(MIB - 2)}}`, '{"b":2}'], '', [`{${'x'.repeat(MIB - 2)}}`, '{"b":2}'], 0],
    ['a long line', ['{"a":1}', long, '{"b":2}'], '', ['{"a":1}', long, '{"b":2}'], 0],
    ['no long line that is not JSON', ['{"a":1}', 'x'.repeat(3 * MIB), '{"b":2}'], '', ['{"a":1}', '{"b":2}'], 1],
  ])('yields %s', async (_, written, end, expected, foreign) => {
    const found = await linesOf(`${written.map((line) => `${line}\n`).join('')}${end}`);
    // Compared in this way, because a failure would print 20 MiB.
    expect(found.lines.map(({ length }) => length)).toEqual(expected.map(({ length }) => length));
    expect(found.lines.every((line, index) => line === expected[index])).toBe(true);
    expect(found.foreign).toBe(foreign);
  });

  it('copies the bytes of a long line only once, however many chunks it has', async () => {
    const concat = vi.spyOn(Buffer, 'concat');
    await linesOf(`${long}\n`);
    const copied = concat.mock.results.reduce((sum, { value }) => sum + (value as Buffer).length, 0);
    vi.restoreAllMocks();
    expect(copied).toBeLessThan(2 * long.length);
  });
});

describe('uploadIdOf', () => {
  const text = 'x'.repeat(100_000);

  it.each<[string, string | Buffer, string | undefined]>([
    ['a short line', '{"upload_id":"u","filename":"f"}', 'u'],
    ['a long line', `{"upload_id":"u","additional_data":"${text}"}`, 'u'],
    ['a short line with another id', '{"upload_id":7}', undefined],
    ['a long line with another id', `{"upload_id":7,"additional_data":"${text}"}`, undefined],
    ['a long line without an id', `{"additional_data":"${text}"}`, undefined],
    ['a long list', `[{"upload_id":"u"},"${text}"]`, undefined],
    ['a long line that ends early', `{"upload_id":"u","additional_data":"${text}`, undefined],
    ['a short line that is not UTF-8', Buffer.from('{"upload_id":"\xff"}', 'latin1'), undefined],
    ['a long line that is not UTF-8', Buffer.from(`{"upload_id":"u","additional_data":"${text}\xff"}`, 'latin1'), undefined],
    ['null', 'null', undefined],
    ['nothing', '', undefined],
  ])('reads the id of %s', async (_, line, id) => {
    expect(await uploadIdOf(Buffer.from(line as string))).toBe(id);
  });
});

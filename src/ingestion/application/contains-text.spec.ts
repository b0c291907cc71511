import { expect, it } from 'vitest';
import { containsText } from './contains-text.js';

it.each<[string, string[], string, boolean]>([
  ['a text in one chunk', ['abc', 'def'], 'de', true],
  ['a text in two chunks', ['abc', 'def'], 'cd', true],
  ['a text in many chunks', ['a', 'b', 'c', 'd', 'e'], 'bcd', true],
  ['a text whose characters have several bytes', ['aé', 'éé', 'é'], 'éééé', true],
  ['no text of which only the beginning is there', ['abc', 'de'], 'def', false],
  ['no text if there are no bytes', [], 'a', false],
])('finds %s', async (_, chunks, text, isFound) => {
  async function* bytes(): AsyncGenerator<Uint8Array> {
    for (const chunk of chunks) yield await Promise.resolve(Buffer.from(chunk));
  }
  expect(await containsText(bytes(), text)).toBe(isFound);
});

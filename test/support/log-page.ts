import { readFile } from 'node:fs/promises';

/** The members of log lines that the table in docs/log.md doesn't have, each once. */
export async function undocumentedMembers(lines: readonly object[]): Promise<string[]> {
  const page = await readFile('docs/log.md', 'utf8');
  const rows = page.matchAll(/^\| (`.*?`) \|/gm);
  const documented = new Set([...rows].flatMap(([, names = '']) => names.replaceAll('`', '').split(', ')));
  return [...new Set(lines.flatMap((line) => Object.keys(line)))].filter((member) => !documented.has(member));
}

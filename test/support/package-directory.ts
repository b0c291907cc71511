import { mkdir, mkdtemp } from 'node:fs/promises';

/**
 * Makes a directory in the package, so that imports of `load-data-service` in it resolve to the build. It isn't in
 * dist, because another spec may pack dist meanwhile. Resolves to its path from the package's own directory.
 */
export async function packageDirectory(name: string): Promise<string> {
  await mkdir('coverage', { recursive: true });
  return mkdtemp(`coverage/${name}-`);
}

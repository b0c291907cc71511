import { readFileSync, rmSync, writeFileSync } from 'node:fs';

interface Saved {
  readonly api: string;
  readonly scopes: unknown;
}

/**
 * Keeps the scopes that an API had before the check in a file, from which the next run restores them if this run is
 * interrupted.
 */
export class SavedScopes {
  constructor(
    private readonly file: string,
    private readonly api: string,
  ) {}

  save(scopes: unknown): void {
    writeFileSync(this.file, JSON.stringify({ api: this.api, scopes } satisfies Saved));
  }

  /**
   * Reads the saved scopes. Undefined if there is no file.
   *
   * @throws Error if the scopes in the file belong to another API.
   */
  read(): unknown {
    const saved = this.parse();
    if (saved && saved.api !== this.api) throw new Error(`${this.file} has the scopes of ${saved.api}: check that one again, which puts them back, or remove the file`);
    return saved?.scopes;
  }

  forget(): void {
    rmSync(this.file, { force: true });
  }

  private parse(): Saved | undefined {
    try {
      return JSON.parse(readFileSync(this.file, 'utf8')) as Saved;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
      throw error;
    }
  }
}

import { readFileSync, rmSync, writeFileSync } from 'node:fs';

interface Saved {
  /** The address of the API that they are of. */
  readonly api: string;
  readonly scopes: unknown;
}

/** The scopes that an API had before the check, in a file: what a run altered that was interrupted the next one puts back. */
export class SavedScopes {
  /** @param api the address of the API. */
  constructor(
    private readonly file: string,
    private readonly api: string,
  ) {}

  save(scopes: unknown): void {
    writeFileSync(this.file, JSON.stringify({ api: this.api, scopes } satisfies Saved));
  }

  /** Undefined where there are none. @throws when they are another API's. */
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

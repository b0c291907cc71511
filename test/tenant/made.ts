import { appendFileSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';

export type Kind = 'users' | 'roles';

/**
 * The users and roles that the check created in the tenant. They are also noted in a file, where the next run finds
 * those that an interrupted run left.
 */
export class Made {
  readonly users = new Set<string>();
  readonly roles = new Set<string>();
  latestUserId: string | undefined;

  constructor(private readonly file: string) {
    mkdirSync(dirname(file), { recursive: true });
    for (const line of linesOf(file)) {
      const [kind, id = ''] = line.split(' ');
      if (kind === 'users' || kind === 'roles') this[kind].add(id);
    }
  }

  note(kind: Kind, id: string): string {
    appendFileSync(this.file, `${kind} ${id}\n`);
    this[kind].add(id);
    if (kind === 'users') this.latestUserId = id;
    return id;
  }

  /** Notes the users and roles that couldn't be removed, and forgets the others. The next run is to remove them. */
  keepOnly(left: readonly (readonly [Kind, string])[]): void {
    this.users.clear();
    this.roles.clear();
    rmSync(this.file, { force: true });
    for (const [kind, id] of left) this.note(kind, id);
  }
}

function linesOf(file: string): string[] {
  try {
    return readFileSync(file, 'utf8').split('\n');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}

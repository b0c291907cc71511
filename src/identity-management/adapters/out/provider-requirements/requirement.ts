/** A change that brings the identity provider closer to the state that the service needs. */
export interface Change {
  /**
   * The text that the set-up prints for the change, for example `+ client load-data-api`. `+` means that something is
   * added, `~` that something existing is changed.
   */
  readonly text: string;
  readonly make: () => Promise<unknown>;
  /**
   * A text that the set-up shows once, after the change was made. It may contain a secret, such as a first password.
   */
  readonly note?: () => Promise<string>;
}

/** One thing that the service needs at its identity provider, for example a client with certain settings. */
export interface Requirement<Needed extends Change = Change> {
  readonly name: string;
  /** Finds the changes that are still needed to fulfil the requirement; empty if none is needed. */
  readonly changes: () => Promise<readonly Needed[]>;
}

/** A change that repairs a defect of the identity provider's configuration. */
export interface Repair extends Change {
  /** The defect as a sentence, without secrets. */
  readonly problem: string;
  /** Whether operations of the service fail because of the defect. */
  readonly isFatal: boolean;
}

/** What a check found wrong with the provider's configuration: one sentence for each defect. */
export interface Findings {
  /** Defects that make operations of the service fail. */
  readonly problems: readonly string[];
  /** Defects that don't make operations of the service fail. */
  readonly warnings: readonly string[];
}

export function findingsOf(repairs: readonly Repair[]): Findings {
  const sentences = (isFatal: boolean) => repairs.filter((repair) => repair.isFatal === isFatal).map(({ problem }) => problem);
  return { problems: sentences(true), warnings: sentences(false) };
}

export const isHealthy = ({ problems, warnings }: Findings): boolean => problems.length === 0 && warnings.length === 0;

export type Members = Readonly<Record<string, unknown>>;

/**
 * Returns the members of `wanted` that `present` lacks, with the values to write. A wanted list or object is lacking
 * unless the present one contains all of its items or members, and any other value unless the present one is equal. The
 * value to write for a list or object is the present one with the wanted items or members added. If the object has a
 * wanted member already, the wanted value replaces it as a whole.
 */
export function lacking(present: Members, wanted: Members): Record<string, unknown> {
  const entries = Object.entries(wanted).map(([name, value]) => [name, present[name], value] as const);
  return Object.fromEntries(entries.filter(([, has, value]) => !includes(has, value)).map(([name, has, value]) => [name, joined(has, value)]));
}

function includes(has: unknown, value: unknown): boolean {
  if (isList(value)) return isList(has) && value.every((item) => has.includes(item));
  if (isMembers(value)) return isMembers(has) && Object.keys(lacking(has, value)).length === 0;
  return has === value;
}

function joined(has: unknown, value: unknown): unknown {
  if (isList(value) && isList(has)) return [...new Set([...has, ...value])];
  return isMembers(value) && isMembers(has) ? { ...has, ...value } : value;
}

const isList = (value: unknown): value is readonly unknown[] => Array.isArray(value);
const isMembers = (value: unknown): value is Members => typeof value === 'object' && value !== null && !isList(value);

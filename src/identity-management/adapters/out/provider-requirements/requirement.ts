import { isJsonObject } from '../../../../common/text.js';

export interface Change {
  /** A line that the set-up prints, such as `+ client load-data-api`: `+` adds something, `~` changes something. */
  readonly text: string;
  readonly make: () => Promise<unknown>;
  /** A text that the set-up shows after the change was made. May contain a secret, such as a first password. */
  readonly note?: () => Promise<string>;
}

export interface Requirement<Needed extends Change = Change> {
  readonly name: string;
  readonly changes: () => Promise<readonly Needed[]>;
}

export interface Repair extends Change {
  /** The defect as a sentence, without secrets. */
  readonly problem: string;
  /** Whether operations of the service fail because of the defect. */
  readonly isFatal: boolean;
}

/** Defects of a provider's configuration, a sentence each. Only problems make operations of the service fail. */
export interface Findings {
  readonly problems: readonly string[];
  readonly warnings: readonly string[];
}

export function findingsOf(repairs: readonly Repair[]): Findings {
  const sentences = (isFatal: boolean) => repairs.filter((repair) => repair.isFatal === isFatal).map(({ problem }) => problem);
  return { problems: sentences(true), warnings: sentences(false) };
}

export const isHealthy = ({ problems, warnings }: Findings): boolean => problems.length === 0 && warnings.length === 0;

export type Members = Readonly<Record<string, unknown>>;

/**
 * Returns the members of `wanted` that are missing from `present`, with the values to write. A list or object needs
 * only contain the wanted items or members, and keeps its others.
 */
export function lacking(present: Members, wanted: Members): Record<string, unknown> {
  const entries = Object.entries(wanted).map(([name, value]) => [name, present[name], value] as const);
  return Object.fromEntries(entries.filter(([, has, value]) => !includes(has, value)).map(([name, has, value]) => [name, joined(has, value)]));
}

function includes(has: unknown, value: unknown): boolean {
  if (isList(value)) return isList(has) && value.every((item) => has.includes(item));
  if (isJsonObject(value)) return isJsonObject(has) && Object.keys(lacking(has, value)).length === 0;
  return has === value;
}

function joined(has: unknown, value: unknown): unknown {
  if (isList(value) && isList(has)) return [...new Set([...has, ...value])];
  return isJsonObject(value) && isJsonObject(has) ? { ...has, ...value } : value;
}

const isList = (value: unknown): value is readonly unknown[] => Array.isArray(value);

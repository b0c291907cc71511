/** A change that brings the provider to the state that the service needs. */
export interface Change {
  /** As shown by the set-up, for example `+ client load-data-api`: `+` creates something, `~` changes it. */
  readonly line: string;
  readonly make: () => Promise<unknown>;
  /** A note to show once, after the change. It may contain a secret. */
  readonly note?: () => Promise<string>;
}

/** A part of what the service needs at its identity provider. */
export interface Requirement<Needed extends Change = Change> {
  readonly name: string;
  /**
   * The necessary changes. Empty if everything is right; all of them if the object that the part belongs to is missing.
   */
  readonly changes: () => Promise<readonly Needed[]>;
}

/** A change that repairs a defect. */
export interface Repair extends Change {
  /** Describes the defect in a sentence, without secrets. */
  readonly problem: string;
  /** Whether operations fail because of it. */
  readonly isFatal: boolean;
}

/** The defects found, one line each. */
export interface Findings {
  /** Defects that make operations fail. */
  readonly problems: readonly string[];
  /** Defects that don't make operations fail. */
  readonly warnings: readonly string[];
}

export function findingsOf(repairs: readonly Repair[]): Findings {
  const sentences = (isFatal: boolean) => repairs.filter((repair) => repair.isFatal === isFatal).map(({ problem }) => problem);
  return { problems: sentences(true), warnings: sentences(false) };
}

export const isWell = ({ problems, warnings }: Findings): boolean => problems.length === 0 && warnings.length === 0;

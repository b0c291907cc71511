/** Makes something as the service needs it. */
export interface Change {
  /** `+ client load-data-api`, as the setup shows it: `+` makes what isn't there, `~` alters what is. */
  readonly line: string;
  readonly make: () => Promise<void>;
  /** What to say when it is made, once; a secret may be in it. */
  readonly note?: () => Promise<string>;
}

/** A part of what the service needs at its identity provider. */
export interface Requirement<Needed extends Change = Change> {
  readonly name: string;
  /** What there is to change; nothing where all is well, all where there isn't even what the part stands in. */
  readonly changes: () => Promise<readonly Needed[]>;
}

/** A change without which the service is not as it should be. */
export interface Repair extends Change {
  /** What is wrong, in a sentence that holds no secret. */
  readonly problem: string;
  /** Whether operations fail. */
  readonly isFatal: boolean;
}

/** What is not as the service needs it, a line for each. */
export interface Findings {
  /** What makes operations fail. */
  readonly problems: readonly string[];
  /** What does not. */
  readonly warnings: readonly string[];
}

export function findingsOf(repairs: readonly Repair[]): Findings {
  const sentences = (isFatal: boolean) => repairs.filter((repair) => repair.isFatal === isFatal).map(({ problem }) => problem);
  return { problems: sentences(true), warnings: sentences(false) };
}

export const isWell = ({ problems, warnings }: Findings): boolean => problems.length === 0 && warnings.length === 0;

/** What one run of Vitest does. `test/mutation/run.mjs` writes it to the file that the variable `MUTATION_PLAN` names. */
export interface Plan {
  /** The paths of the specs, in the order in which they run. */
  readonly specs: readonly string[];
  /** The names of the tests of each spec that don't run. */
  readonly skipped: Readonly<Record<string, readonly string[]>>;
  /** The file that gets a `SpecRecord` of each spec, one a line. */
  readonly recordTo?: string;
}

/** Which mutants a spec reaches, and how long it takes. */
export interface SpecRecord {
  spec: string;
  ms: number;
  /** Those reached while the spec was imported. */
  readonly imports: number[];
  /** Those reached outside a test, as in `beforeAll`. */
  readonly hooks: number[];
  readonly tests: Record<string, { readonly ms: number; readonly hasFailed: boolean; readonly mutants: number[] }>;
}

/** The numbers of the mutants whose code ran. The code of a mutant adds its number: see `withProbes`. */
export const reached = ((globalThis as { reachedMutants?: Set<number> }).reachedMutants ??= new Set<number>());

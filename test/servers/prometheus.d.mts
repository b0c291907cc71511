import type { Server } from './server.mjs';

/** A Prometheus on the loopback interface. */
export interface Prometheus extends Server {
  /** Evaluates an expression, now. Resolves to the series of the result. */
  query(expression: string): Promise<{ readonly metric: Readonly<Record<string, string>>; readonly value: readonly [number, string] }[]>;
}

/** A program that Prometheus scrapes. */
export interface Target {
  /** The host of the program, with its port. */
  readonly host: string;
  /** Labels that Prometheus adds to each of the target's series. Default: none. */
  readonly labels?: Readonly<Record<string, string>>;
}

/** Whether Prometheus and promtool are installed. */
export function isPrometheusAvailable(): boolean;

/** Starts a Prometheus that scrapes each second. `rules` is the path of a file of rules. */
export function startPrometheus(options: { readonly job: string; readonly targets: readonly Target[]; readonly rules: string }): Promise<Prometheus>;

/** Runs promtool. Resolves to its exit code, and what it printed. */
export function runPromtool(parameters: readonly string[], input?: string): Promise<{ readonly code: number; readonly output: string }>;

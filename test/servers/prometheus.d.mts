import type { Server } from './server.mjs';

/** A Prometheus on the loopback interface. */
export interface Prometheus extends Server {
  /** Evaluates an expression, now. Resolves to the series of the result. */
  query(expression: string): Promise<{ readonly metric: Readonly<Record<string, string>>; readonly value: readonly [number, string] }[]>;
}

/** Something to scrape. */
export interface Target {
  /** The host, with its port. */
  readonly host: string;
  /** The labels of its series, besides those of the metrics; default: none. */
  readonly labels?: Readonly<Record<string, string>>;
}

/** Whether Prometheus and promtool are installed. */
export function isPrometheusAvailable(): boolean;

/** Starts a Prometheus that scrapes each second. `rules` is the path of a file of rules. */
export function startPrometheus(options: { readonly job: string; readonly targets: readonly Target[]; readonly rules: string }): Promise<Prometheus>;

/** Runs promtool. Resolves to its exit code, and what it printed. */
export function runPromtool(parameters: readonly string[], input?: string): Promise<{ readonly code: number; readonly output: string }>;
